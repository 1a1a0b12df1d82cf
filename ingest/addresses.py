"""Which addresses this service may connect to when somebody else names the host.

A URL that a caller sends could name the service's own neighbours: a cloud's metadata at 169.254.169.254, a database
that trusts its network, this machine. So a connection goes only to addresses that everybody can reach. The check is
made where the connection is: of every address that a name resolves to, before any is tried, and of the very address
that the socket is opened for. There is no second resolution that could say otherwise (DNS rebinding), and each hop of a
redirect comes through here again. See OWASP, Server-Side Request Forgery Prevention.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from pipeline.errors import InvalidInput

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address
_CLOSED = (
    IPv6Network("::/96"),  # IPv4-compatible, deprecated: RFC 4291, 2.5.5.1
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of a local network: RFC 8215
    IPv6Network("fec0::/10"),  # site-local, deprecated: RFC 3879
)


class AddressRefused(InvalidInput):
    """The host has an address that not everybody can reach; `detail` names it, for the operator alone."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__(
            f"'{host}' has a private or local address, and such are not connected to. The operator may allow them by "
            "FLEETFOOT_ALLOW_PRIVATE_ADDRESSES=true.",
            field="url",
        )
        self.detail = f"{host} is {address}"


class Addresses:
    """Checks, and makes connectors that check. `resolver` is asked for names; without one the system's is."""

    def __init__(self, *, allow_private: bool = False, resolver: AbstractResolver | None = None) -> None:
        self._allow_private = allow_private
        self._resolver = resolver

    def connector(self) -> aiohttp.TCPConnector:
        """For a `ClientSession` of the running event loop, which closes it. Connecting raises AddressRefused.

        Connections are not kept: each request is a resolution and a check.
        """
        return aiohttp.TCPConnector(
            resolver=_Checking(self, self._resolver or ThreadedResolver(asyncio.get_running_loop())),
            use_dns_cache=False,
            force_close=True,
            socket_factory=cast("Any", self._opened),  # its type leaves an address's parts unknown
        )

    def check(self, host: str, address: str) -> None:
        """Raises AddressRefused unless a connection to `address`, which `host` stands for, is allowed."""
        if not self._allow_private and not is_public(address):
            raise AddressRefused(host, address)

    def _opened(self, info: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
        """The last door, and the only one for a URL that names an address itself: nobody resolves that."""
        family, kind, protocol, _, place = info
        self.check(str(place[0]), str(place[0]))
        return socket.socket(family, kind, protocol)


class _Checking(AbstractResolver):
    """A resolver that refuses a name with even one address that is not allowed."""

    def __init__(self, addresses: Addresses, resolver: AbstractResolver) -> None:
        self._addresses = addresses
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            self._addresses.check(host, each["host"])
        return found

    async def close(self) -> None:
        await self._resolver.close()


def is_public(address: str) -> bool:
    """Whether a numeric address is one that everybody can reach; False for what is no address.

    Not so are private, loopback, link-local, multicast and reserved ones, and IPv6 addresses that stand for an IPv4
    address: mapped ones never, tunnels (NAT64, 6to4, Teredo) unless the address inside is public too.
    """
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if known.is_multicast or known.is_unspecified or not known.is_global:
        return False
    return isinstance(known, IPv4Address) or _is_public_6(known)


def _is_public_6(address: IPv6Address) -> bool:
    if address.ipv4_mapped is not None or any(address in network for network in _CLOSED):
        return False
    inside = [address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return all(each is None or is_public(str(each)) for each in inside)

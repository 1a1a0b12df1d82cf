"""How a document is to be read, sent with it."""

from __future__ import annotations

import json

import aiohttp

from tests.fakes_api import Running

DOCUMENTS = "/v1/collections/handbook/documents"
TEMPLATE = {"csv.template": "{name}: {price} in {city}"}


async def test_a_form_says_how_all_of_its_files_are_read() -> None:
    form = aiohttp.FormData()
    form.add_field("file", b"name,price,city\na,1,b\n", filename="prices.csv")
    form.add_field("options", json.dumps(TEMPLATE))
    async with Running() as service, service.client.post(service.url + DOCUMENTS, data=form) as response:
        ((_, _, uploads),) = service.stages.catalog.kept
    assert (response.status, uploads[0].options) == (202, TEMPLATE)


async def test_a_text_says_how_it_is_read() -> None:
    body = {"documents": [{"name": "prices.csv", "text": "name,price,city\na,1,b\n", "options": TEMPLATE}]}
    async with Running() as service, service.client.post(service.url + DOCUMENTS, json=body) as response:
        ((_, _, uploads),) = service.stages.catalog.kept
    assert (response.status, uploads[0].options) == (202, TEMPLATE)


async def test_a_broken_template_is_refused_where_it_stands() -> None:
    body = {"documents": [{"text": "a"}, {"text": "a,b", "options": {"csv.template": "{name"}}]}
    async with Running() as service, service.client.post(service.url + DOCUMENTS, json=body) as response:
        error = (await response.json())["error"]
        assert service.stages.catalog.kept == []
    assert (response.status, error["param"]) == (400, "documents[1].options.csv.template")
    assert "belongs to no column" in error["message"]


async def test_an_option_that_is_not_known_is_refused_by_name() -> None:
    form = aiohttp.FormData()
    form.add_field("file", b"a,b\n", filename="prices.csv")
    form.add_field("options", '{"csv.tmplate": "{a}"}')
    async with Running() as service, service.client.post(service.url + DOCUMENTS, data=form) as response:
        error = (await response.json())["error"]
    assert (response.status, error["param"]) == (400, "options.csv.tmplate")


async def test_options_that_are_no_object_are_refused() -> None:
    for sent in ("[1]", "{"):
        form = aiohttp.FormData()
        form.add_field("file", b"a,b\n", filename="prices.csv")
        form.add_field("options", sent)
        async with Running() as service, service.client.post(service.url + DOCUMENTS, data=form) as response:
            assert (response.status, (await response.json())["error"]["param"]) == (400, "options")

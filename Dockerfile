# One image for the API and the worker: `serve` or `work` is the command. DEVICE=gpu builds on CUDA instead.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
ARG DEVICE=cpu
WORKDIR /build
RUN python3 -m venv /opt/fleetfoot
COPY locks/${DEVICE}.txt /build/lock.txt
RUN /opt/fleetfoot/bin/pip install --no-cache-dir --no-deps --require-hashes -r lock.txt
COPY . /build/source
RUN /opt/fleetfoot/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /build/wheels /build/source \
    && /opt/fleetfoot/bin/pip install --no-cache-dir --no-deps /build/wheels/fleetfoot-*.whl

FROM ${BASE}
COPY --from=build /opt/fleetfoot /opt/fleetfoot
RUN useradd --system --uid 10001 --create-home fleetfoot \
    && install -d -o fleetfoot -g fleetfoot /data
USER fleetfoot
ENV PATH=/opt/fleetfoot/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    FLEETFOOT_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
# SIGTERM lets running streams finish and the worker return its task.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["fleetfoot"]
CMD ["serve"]

# One image for the API and the workers: `serve` or `work` is the command.
#
#   docker build -t fleetfoot .
#
# For a GPU on a base with CUDA 13 and cuDNN 9, which onnxruntime-gpu is built for; run it with --gpus all and
# FLEETFOOT_DEVICE=cuda:
#
#   docker build -t fleetfoot --build-arg DEVICE=gpu \
#       --build-arg BASE=nvidia/cuda:13.0.2-cudnn-runtime-ubuntu24.04 .
ARG BASE=python:3.11-slim
FROM ${BASE} AS python
# A CUDA image brings no Python.
RUN command -v python3 > /dev/null \
    || (apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*)

FROM python AS build
ARG DEVICE=cpu
WORKDIR /build
RUN python3 -m venv /opt/fleetfoot
COPY locks /build/locks
RUN /opt/fleetfoot/bin/pip install --no-cache-dir --no-deps --require-hashes -r locks/${DEVICE}.txt
# The build tool comes pinned and hashed too, and stays in an environment that is left behind.
RUN python3 -m venv tool \
    && sed -n '/^setuptools==/,/[^\\]$/p' locks/dev.txt > locks/build.txt \
    && tool/bin/pip install --no-cache-dir --no-deps --require-hashes -r locks/build.txt
COPY . /build/source
RUN tool/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheels ./source \
    && /opt/fleetfoot/bin/pip install --no-cache-dir --no-deps ./wheels/fleetfoot-*.whl

FROM python
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

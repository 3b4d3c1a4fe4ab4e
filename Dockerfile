# mtkit on a CPU: docker build -t mtkit . && docker run --rm -v "$PWD:/work" mtkit demo
# A service: docker build --target serve -t mtkit-serve .; docs/serving.md says how to run it
FROM python:3.11-slim AS base
WORKDIR /mtkit
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY configs configs
COPY mtkit mtkit
# torch without CUDA, some 200 MB to download: its version there, 2.13.0+cpu, precedes the 2.13.0 of the default index
ENV PIP_NO_CACHE_DIR=1 PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

FROM base AS serve
RUN python3 -m pip install -c constraints.txt '.[serve,fast,documents]'
# a volume at /var/lib/mtkit belongs to the user, too: for files of keys, corrections and glossaries
RUN useradd --system --home-dir /tmp mtkit && install --directory --owner mtkit /var/lib/mtkit
USER mtkit
WORKDIR /tmp
ENV NUMBA_CACHE_DIR=/tmp/numba
EXPOSE 5000
HEALTHCHECK --start-period=60s --timeout=5s CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["mtkit", "serve", "--host", "0.0.0.0", "--port", "5000"]
CMD ["--model", "/model"]

# the last stage is what `docker build .` makes
FROM base AS mtkit
RUN python3 -m pip install -c constraints.txt '.[fast,plot]'
WORKDIR /work
ENTRYPOINT ["mtkit"]
CMD ["--help"]

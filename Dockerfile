# mtkit on a CPU: docker build -t mtkit . && docker run --rm -v "$PWD:/work" mtkit demo
FROM python:3.11-slim
WORKDIR /mtkit
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY configs configs
COPY mtkit mtkit
# torch without CUDA, some 200 MB to download: its version there, 2.13.0+cpu, precedes the 2.13.0 of the default index
ENV PIP_NO_CACHE_DIR=1 PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN python3 -m pip install -c constraints.txt '.[fast,plot]'
WORKDIR /work
ENTRYPOINT ["mtkit"]
CMD ["--help"]

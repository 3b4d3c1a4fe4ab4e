"""The examples of docs/serving: settings, a container, and the real proxies where they are installed."""

import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tiny_server import loud_backend, running

from mtkit.config.reading.loading import load_serve_config

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "serving"
FILE: dict[str, Any] = {"files": {"file": ("a.txt", b"text")}, "data": {"source": "en", "target": "fr"}}


def test_the_settings_can_be_read():
    cfg = load_serve_config(EXAMPLES / "serve.yaml")
    assert cfg.access_log and cfg.proxies and cfg.hosts


def test_the_container_has_what_the_settings_name():
    service = yaml.safe_load((EXAMPLES / "compose.yaml").read_text("utf-8"))["services"]["mtkit"]
    places = {volume.split(":")[1] for volume in service["volumes"]}
    cfg = load_serve_config(EXAMPLES / "serve.yaml")
    assert cfg.glossaries is not None
    assert service["command"] == ["--config", "/etc/mtkit/serve.yaml"]
    assert {str(cfg.models[0].parent), str(cfg.glossaries.parent), "/etc/mtkit/serve.yaml"} == places
    docker = (ROOT / "Dockerfile").read_text("utf-8")
    assert f"AS {service['build']['target']}\n" in docker
    assert "--owner mtkit /var/lib/mtkit" in docker


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def nginx(service_port, folder):
    """The example on a free port, without TLS; yields its address."""
    port = free_port()
    text = (EXAMPLES / "nginx.conf").read_text("utf-8")
    text = re.sub("^.*ssl_certificate.*\n", "", text, flags=re.MULTILINE)
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace(
        "127.0.0.1:5000", f"127.0.0.1:{service_port}"
    )
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\nhttp {{\naccess_log off;\n{places}{text}}}\n"
    )
    with started(["nginx", "-p", str(folder), "-c", str(config)], port, folder) as address:
        yield address


@contextmanager
def caddy(service_port, folder):
    """The example on a free port, without TLS; yields its address."""
    port = free_port()
    text = (EXAMPLES / "Caddyfile").read_text("utf-8").replace("127.0.0.1:5000", f"127.0.0.1:{service_port}")
    text = text.replace("\ntranslate.example.org {", f"\nhttp://127.0.0.1:{port} {{")
    config = folder / "Caddyfile"
    config.write_text(f"{{\n\tadmin off\n}}\n{text}")
    with started(["caddy", "run", "--adapter", "caddyfile", "--config", str(config)], port, folder) as address:
        yield address


@contextmanager
def started(command, port, folder):
    log = folder / "log"
    homes = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with log.open("wb") as file, subprocess.Popen(command, stderr=file, env={**os.environ, **homes}) as process:
        try:
            while True:
                assert process.poll() is None, log.read_text()
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    time.sleep(0.01)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_the_service_behind_a_proxy_knows_clients_addresses_and_prefixes(proxy, tmp_path, caplog):
    if shutil.which(proxy.__name__) is None:
        pytest.skip(f"needs {proxy.__name__}")
    caplog.set_level("INFO", "mtkit")
    backend = loud_backend(proxies=["127.0.0.1"], access_log=True, limits={"max_file_mb": 10})
    with running(backend) as service, proxy(int(service.rpartition(":")[2]), tmp_path) as address:
        forged = {"X-Forwarded-For": "10.1.1.1", "X-Forwarded-Prefix": "/forged", "X-Request-ID": "forged"}
        for prefix in ("", "/mt"):
            sent = httpx.post(f"{address}{prefix}/translate_file", headers=forged, **FILE)
            url = sent.json()["translatedFileUrl"]
            assert url.startswith(f"{address}{prefix}/download_file/")
            assert httpx.get(url).content == b"TEXT"
            assert "forged" not in sent.headers["x-request-id"]
        page = httpx.get(f"{address}/mt", follow_redirects=True)
        assert page.url == f"{address}/mt/"
        assert "<html" in page.text
        assert httpx.post(f"{address}/mt/translate_file", content=b"x" * 13_000_000).status_code == 413
    assert "10.1.1.1" not in caplog.text
    assert caplog.text.count("127.0.0.1 POST /translate_file 200") == 2

"""Settings of `mtkit serve`: models, address, API keys and limits."""

import socket
from ipaddress import ip_address
from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import ConfigPath, Section

PREFIX = r"(?:/[\w.~-]+)+"  # of a path


class LimitsConfig(Section):
    """Limits of one request and of one caller. The service refuses a request above a limit at once, and names the
    limit.
    """

    max_chars: int = Field(10_000, ge=1, description="most characters in one text")
    max_texts: int = Field(
        50, ge=1, description="most texts in one request; together they may have at most 10 * max_chars characters"
    )
    max_alternatives: int = Field(4, ge=0, description="most alternative translations of each text")
    max_file_mb: float = Field(10, gt=0, description="most megabytes in one document")
    max_terms: int = Field(1_000, ge=0, description="most terms in one request's own terminology")
    max_glossary_entries: int = Field(100_000, ge=1, description="most entries in one glossary of the DeepL API")
    max_memory_units: int = Field(
        1_000_000, ge=1, description="most units in all translation memories of one caller of the DeepL API"
    )
    requests_per_minute: int | None = Field(
        None,
        ge=1,
        description="most requests per minute with one key, or from one address without a key; null: no limit",
    )
    deadline_s: float = Field(
        30, gt=0, le=600, description="most seconds for one request; then the service answers with 504"
    )
    document_deadline_s: float = Field(1_800, gt=0, description="most seconds for one document")
    max_documents: int = Field(
        100, ge=1, description="most documents that the service stores at a time, waiting or done"
    )


class QueueConfig(Section):
    """Limits of the queue of sentences and of the batches."""

    max_sentences: int = Field(
        512, ge=1, description="most sentences in the queue; above this, the service answers with 503"
    )
    batch_tokens: int = Field(
        512,
        ge=1,
        description="most tokens in one batch, estimated at 4 characters each; short requests wait for a batch",
    )


class KeysConfig(Section):
    """API keys and their use."""

    file: ConfigPath | None = Field(None, description="file of hashed API keys, from `mtkit keys`")
    required: bool = Field(False, description="refuse requests without a key")
    metrics: str | None = Field(
        None, description="name of the key that may read /metrics as a bearer token; null: anyone may read it"
    )

    @model_validator(mode="after")
    def _keys_are_somewhere(self) -> Self:
        if self.file is None and (self.required or self.metrics):
            needs = "required=true" if self.required else f"metrics={self.metrics}"
            raise ValueError(f"{needs} needs file, the file of keys: create it with `mtkit keys add`")
        return self


class KeyEntry(Section):
    """The record of a key in the file, with a hash instead of the key."""

    name: str = Field(pattern=r"^[\w.@+-]{1,64}$", description="owner of the key")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="the key's checksum")
    created: str = Field("", description="day of its creation")
    requests_per_minute: int | None = Field(None, ge=1, description="instead of limits.requests_per_minute")
    max_chars: int | None = Field(None, ge=1, description="instead of limits.max_chars")


class KeyFile(Section):
    """The content of a file of keys."""

    keys: list[KeyEntry] = Field([], description="the valid keys")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [key.name for key in self.keys]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"the name {twice[0]} has more than one key")
        return self


class CorrectionsConfig(Section):
    """Corrections that users suggest."""

    file: ConfigPath | None = Field(None, description="SQLite file that stores them; null: the service accepts none")
    apply: Literal["vetted", "accepted"] = Field(
        "vetted",
        description="when a correction becomes an exact match: as soon as it passes the checks, for the caller who "
        "suggested it, or only after `mtkit corrections accept`, for all callers",
    )


class ServeConfig(Section):
    """All settings of a service."""

    models: list[ConfigPath] = Field([], description="run or bundle folders; default: the newest run in ./runs")
    host: str = Field(
        "127.0.0.1", min_length=1, description="address to listen on; 0.0.0.0: all addresses of this machine"
    )
    port: int = Field(5000, ge=0, le=65_535, description="port to listen on; 0: any free one")
    workers: int | None = Field(
        None,
        ge=1,
        le=256,
        description="number of processes that translate, each with one thread; default: one for each core",
    )
    memory_mb: int | None = Field(
        None, ge=1, description="most memory for loaded models, in all workers together; null: all models stay loaded"
    )
    decode: dict[str, str | int | float | bool | None] = Field(
        {}, description="keys of the models' decode section to change, such as {beam_size: 1}"
    )
    limits: LimitsConfig = Field(LimitsConfig(), description="limits of one request and of one caller")
    queue: QueueConfig = Field(QueueConfig(), description="the queue of sentences and the batches")
    keys: KeysConfig = Field(KeysConfig(), description="who may ask")
    corrections: CorrectionsConfig = Field(CorrectionsConfig(), description="corrections that users suggest")
    glossaries: ConfigPath | None = Field(
        None, description="SQLite file that stores the glossaries of the DeepL API; null: the service accepts none"
    )
    memories: ConfigPath | None = Field(
        None, description="folder that stores the translation memories of the DeepL API; null: the service accepts none"
    )
    cors: list[str] = Field(
        [], description="origins whose pages may call the service from a browser, such as https://example.org; or '*'"
    )
    hosts: list[str] = Field(
        [],
        description="host names that clients may use for the service, besides localhost and addresses; the service "
        "refuses others, because a hostile page could point its own name at this machine. '*' allows any name; "
        "so does an empty list if host is not an address of this machine alone",
    )
    proxies: list[str] = Field(
        [],
        description="addresses or networks of reverse proxies whose headers the service trusts: X-Forwarded-For, "
        "X-Forwarded-Proto, X-Forwarded-Prefix and X-Request-ID",
    )
    prefix: str = Field(
        "",
        pattern=rf"^({PREFIX})?$",
        description="path under which a reverse proxy publishes the service, such as /mt, if it does not remove it and "
        "send it as X-Forwarded-Prefix",
    )
    page: bool = Field(True, description="serve a translation page for people at /")
    access_log: bool = Field(
        False, description="write a line to the log for each request: client, route, status, time and request id"
    )
    log_text: bool = Field(False, description="write texts and translations to the log")

    @property
    def is_local(self) -> bool:
        """Return whether only programs on this machine can reach the service, unless a proxy forwards others."""
        try:
            found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # it cannot be listened to, either
            return False
        return all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)

    @property
    def is_private(self) -> bool:
        """Return whether all callers without a key are users of this machine."""
        return self.is_local and not self.proxies

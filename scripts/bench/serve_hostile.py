"""Send a running service thousands of malformed or hostile requests, which it must answer properly and survive.

    mtkit keys add ann --file keys.yaml; mtkit keys add bob --file keys.yaml
    mtkit serve --port 5011 --set limits.deadline_s=5 --set keys.file=keys.yaml --set corrections.file=kept.sqlite
    python scripts/bench/serve_hostile.py http://127.0.0.1:5011 --key ANN --other-key BOB --source en --target fr

It prints how many answers had which status, and exits with 1 if one had status 500 or none came in time, an error was
not JSON, or one key's document or correction was visible to another.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit

import httpx

_ANSWER_S = 45.0  # longer than any deadline of the service
_AT_ONCE = 128  # most of them wait: for bytes that never come
_WORDS = "The cat sleeps under the table and the old house is red".split()  # noqa: SIM905


@dataclass
class Target:
    """The service that is attacked."""

    address: str
    key: str
    other_key: str
    source: str
    target: str


@dataclass
class Report:
    """What came back."""

    statuses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def _odd_value(chance: random.Random) -> object:
    nested: object = []
    for _ in range(chance.choice([1, 50, 150])):
        nested = [nested]
    return chance.choice(
        [
            *(None, True, -1, 0, 1e308, 2**70, "", "\0", "\ud800", "x" * 20_000, "😀" * 5_000, "\u202e", "<script>"),
            *([], {}, ["a"] * 60, [["a"]], {"a": {"b": 1}}, nested, "auto", "../../etc/passwd", "' OR 1=1 --"),
        ]
    )


def _json_request(chance: random.Random, target: Target) -> bytes:
    values: dict[str, object] = {"q": " ".join(chance.choices(_WORDS, k=5)), "api_key": target.key}
    values |= {"source": target.source, "target": target.target}
    for name in chance.sample(["q", "source", "target", "format", "alternatives", "terms", "api_key", "text"], k=2):
        values[name] = _odd_value(chance)
    body = json.dumps(values).encode()
    match chance.randrange(8):
        case 0:
            body = body[: chance.randrange(len(body))]
        case 1:
            body = body.replace(b'"q"', b'"q": 1, "q"', 1)
        case 2:
            body = b"\xef\xbb\xbf" + body
        case 3:
            body = body.decode().encode("utf-16")
        case 4:
            body = b"[" * chance.choice([100, 100_000]) + body
    return body


def _http(target: Target, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """Return the bytes of a request, whatever its parts say."""
    head = {"Host": urlsplit(target.address).netloc, "Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1", "replace") + body


_POSTS = (
    *("/translate", "/detect", "/suggest", "/translate_file", "/v2/translate", "/v2/glossaries", "/v2/document"),
    *("/api/translate", "/api/stream", "/api/words", "/api/alternatives", "/api/documents", "/api/corrections"),
)
_KINDS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "a/b; c=\x00", ""


def hostile_request(chance: random.Random, target: Target) -> bytes:
    """Return the bytes of a request that no well-meaning client sends."""
    path, kind = chance.choice(_POSTS), chance.choice(_KINDS)
    headers = {"Content-Type": kind, "Authorization": f"Bearer {target.key}"}
    match chance.randrange(14):
        case 0:
            return chance.randbytes(chance.randrange(1, 2_000))
        case 1 | 2 | 3:
            return _http(target, "POST", path, {**headers, "Content-Type": _KINDS[0]}, _json_request(chance, target))
        case 4:
            return _http(target, "POST", path, headers, chance.randbytes(chance.randrange(3_000)))
        case 5:  # chunks that lie
            chunks = chance.choice(
                [b"5\r\nab", b"zz\r\n", b"-1\r\n\r\n", b"ffffffffffffffff\r\na", b"3\r\nabcdef\r\n0\r\n\r\n"]
            )
            chunked = {**headers, "Transfer-Encoding": "chunked"}
            return _http(target, "POST", path, chunked, b"").replace(b"Content-Length: 0\r\n", b"") + chunks
        case 6:  # lengths that lie
            length = chance.choice(["-1", "99999999999999999999", "abc", "1", "5, 6", "1000000000"])
            return _http(target, "POST", path, {**headers, "Content-Length": length}, b'{"q": "a"}')
        case 7:
            big = chance.choice([1_000, 60_000, 300_000])
            return _http(target, "GET", "/languages", {f"X-{chance.random()}": "x" * big}, b"")
        case 8:  # names of files
            names = [
                "../../../etc/passwd",
                "..\\..\\a",
                "%2e%2e/",
                "\0",
                "a" * 9_000,
                "é",
                "%ff%fe",
                "0" * 32 + ".a_fr.txt",
            ]
            name = quote(chance.choice(names), safe=chance.choice(["", "/%"]))
            return _http(
                target,
                "GET",
                f"{chance.choice(['/download_file/', '/v2/document/', '/api/documents/'])}{name}",
                {},
                b"",
            )
        case 9:  # a form without an end, or with strange parts
            boundary = chance.choice(["x", "", "é", "x" * 500])
            part = (
                f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_odd_value(chance)}"\r\n\r\n'
            )
            form = {**headers, "Content-Type": f"multipart/form-data; boundary={boundary}; charset=unicode_escape"}
            return _http(target, "POST", path, form, part.encode("utf-8", "replace") * chance.choice([1, 3]))
        case 10:  # guesses of keys
            values = {"q": "a", "source": target.source, "target": target.target, "api_key": f"mtk_{chance.random()}"}
            return _http(target, "POST", "/translate", {"Content-Type": _KINDS[1]}, urlencode(values).encode())
        case 11:
            method = chance.choice(["TRACE", "CONNECT", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "A" * 50])
            return _http(target, method, path, headers, b"")
        case 12:
            strange = chance.choice(["evil.example", "", "a b", "[::1", "127.0.0.1:99999"])
            return _http(target, "GET", "/languages", {"Host": strange, "Origin": "http://evil.example"}, b"")
        case _:
            fields = [("q", "a"), ("q", "b"), ("source", "%ff"), ("target", "fr"), ("alternatives", "9" * 5_000)]
            body = "&".join(f"{name}={value}" for name, value in fields * chance.choice([1, 400])).encode()
            return _http(target, "POST", path, {**headers, "Content-Type": _KINDS[1]}, body)


async def send(target: Target, request: bytes, report: Report) -> None:
    """Send a request, half of which may be all that comes, and judge the answer."""
    place = urlsplit(target.address)
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            try:
                writer.write(request)
                answer = await reader.read(-1)
            except ConnectionError:  # it closes what it does not want to read
                answer = b""
            finally:
                writer.close()
    except TimeoutError:
        report.faults.append(f"no answer to {request[:200]!r}")
        return
    judge(answer, request, report)


def judge(answer: bytes, request: bytes, report: Report) -> None:
    """Count an answer, and note what is wrong with it."""
    if not answer:
        report.statuses["closed"] += 1
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1].decode("latin-1")
    report.statuses[status] += 1
    if status == "500":
        report.faults.append(f"status 500 to {request[:300]!r}")
    if status >= "400" and not request.startswith(b"HEAD"):
        try:
            error = json.loads(body)
            if not isinstance(error.get("error", error.get("message")), str):
                raise ValueError
        except ValueError:
            report.faults.append(f"an error that is no JSON, {body[:100]!r}, to {request[:200]!r}")


async def creep(target: Target, report: Report) -> None:
    """Send a head, or a body, byte by byte, and never end: the service closes the connection."""
    place = urlsplit(target.address)
    endless_body = {"Content-Type": "application/json", "Content-Length": "900000"}
    for beginning in (b"POST /translate HTTP/1.1\r\nA: ", _http(target, "POST", "/translate", endless_body, b"")):
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(beginning)
        start = time.monotonic()
        end = asyncio.ensure_future(reader.read(-1))
        while not end.done() and time.monotonic() - start < 2 * _ANSWER_S:
            writer.write(b"a")
            await asyncio.wait((end,), timeout=0.5)
        if end.done():
            end.exception()  # it may have been reset
            report.statuses[f"a slow client was closed after {time.monotonic() - start:.0f} s"] += 1
        else:
            report.faults.append(f"a slow client holds a connection: {beginning[:60]!r}")
            end.cancel()
        writer.close()


async def spy(target: Target, report: Report) -> None:
    """Look for one key's document and correction with the other."""
    text, better = "The cat sleeps.", "Une phrase qui appartient à Ann seule."
    language = {"source": target.source, "target": target.target}
    mine = {"Authorization": f"Bearer {target.key}"}
    other = {"Authorization": f"Bearer {target.other_key}"}
    async with httpx.AsyncClient(base_url=target.address, timeout=_ANSWER_S) as client:
        await client.post("/suggest", json={"q": text, "s": better, **language, "api_key": target.key})
        theirs = await client.post("/translate", json={"q": text, **language, "api_key": target.other_key})
        if better in theirs.text:
            report.faults.append("one key's correction acts for another")
        sent = await client.post("/api/documents", files={"file": ("a.txt", text)}, data=language, headers=mine)
        if sent.status_code >= 300:
            report.faults.append(f"a document was not taken: {sent.text[:100]}")
            return
        place = f"/api/documents/{sent.json()['id']}"
        own, others = [(await client.get(place, headers=headers)).status_code for headers in (mine, other)]
        if (own, others) != (200, 404):
            report.faults.append(f"a document: {own} for its owner, {others} for another key")


async def works(target: Target) -> bool:
    """Return whether the service translates."""
    values = {"q": "The cat sleeps.", "source": target.source, "target": target.target, "api_key": target.key}
    async with httpx.AsyncClient(base_url=target.address, timeout=_ANSWER_S) as client:
        return (await client.post("/translate", json=values)).status_code == 200


async def attack(target: Target, n: int, seed: int) -> Report:
    """Send n requests, some at once, beside slow clients and spies."""
    report, chance = Report(), random.Random(seed)
    slow = asyncio.ensure_future(creep(target, report))
    await spy(target, report)
    room = asyncio.Semaphore(_AT_ONCE)

    async def send_in_turn(request: bytes) -> None:
        async with room:
            await send(target, request, report)

    await asyncio.gather(*(send_in_turn(hostile_request(chance, target)) for _ in range(n)))
    await slow
    if not await works(target):
        report.faults.append("it does not translate any more")
    return report


def main() -> None:
    """Attack a service, and print what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("--n", type=int, default=5_000, help="requests")
    parser.add_argument("--seed", type=int, default=1)
    for name in ("--key", "--other-key", "--source", "--target"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    start = time.monotonic()
    report = asyncio.run(
        attack(Target(args.address, args.key, args.other_key, args.source, args.target), args.n, args.seed)
    )
    for status, count in sorted(report.statuses.items()):
        print(f"{status}\t{count}")
    print(f"{args.n} requests in {time.monotonic() - start:.0f} s, {len(report.faults)} faults")
    for fault in report.faults[:20]:
        print(fault)
    sys.exit(bool(report.faults))


if __name__ == "__main__":
    main()

"""from_url against a server on this machine."""

import gzip
import http.server
import threading

import pytest
import tensord
from tensord import Tensor

DATA = bytes(range(256)) * 5
PAGES = {"/data": DATA, "/data.gz": gzip.compress(DATA), "/short.gz": gzip.compress(DATA)[:-20]}


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        body = PAGES.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.asked = []
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_it_is_fetched_once(server, tmp_path):
    for _ in range(2):
        tensor = Tensor.from_url(server.url + "/data")
        assert tensor.dtype == "uint8" and bytes(tensor.data()) == DATA
    assert server.asked == ["/data"]
    assert [path.read_bytes() for path in (tmp_path / "tensord" / "downloads").iterdir()] == [DATA]


def test_it_is_unpacked_if_asked(server):
    packed = server.url + "/data.gz"
    assert bytes(tensord.from_url(packed, gunzip=True).data()) == DATA
    assert bytes(tensord.from_url(packed).data()) == PAGES["/data.gz"]  # what is kept is the file
    assert server.asked == ["/data.gz"]
    for wrong in ("/data", "/short.gz"):
        with pytest.raises(ValueError, match="no gzip file"):
            tensord.from_url(server.url + wrong, gunzip=True)


def test_nothing_is_kept_of_what_could_not_be_fetched(server, tmp_path):
    for _ in range(2):
        with pytest.raises(tensord.errors.UnavailableError, match="404"):
            tensord.from_url(server.url + "/absent")
    assert server.asked == ["/absent"] * 2 and not list((tmp_path / "tensord" / "downloads").iterdir())
    with pytest.raises(ValueError, match="http, https or file"):
        tensord.from_url("ftp://somewhere/file")


def test_a_file_has_a_url(server, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(DATA)
    assert bytes(Tensor.from_url(path.as_uri()).data()) == DATA

"""A browser as plain HTTP requests: what it was let in with, and nothing that a real one would add unless a test says so."""

import html
import http.client
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from memory_mcp.web.visits import COOKIE
from tests.waiting import PATIENCE

_TARGET = re.compile(r'href="(/ui/[^"]+/)"')
_TOKEN = re.compile(r'data-token="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response; names of headers in small letters, those that came twice joined by a comma."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with the cookie of a visit at the address of its pages."""

    #: Name and port of the server.
    server: str
    base: str = ""
    cookie: str = ""

    @property
    def origin(self) -> str:
        return f"http://{self.server}"

    def send(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> Reply:
        """One request with the visit's cookie; headers given replace the usual ones, and an empty one is left out."""
        usual = {"Host": self.server, "Cookie": f"{COOKIE}={self.cookie}" if self.cookie else ""}
        sent = usual | {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.server, timeout=PATIENCE)
        try:
            # As a browser does it.
            connection.putrequest(method, path.replace(" ", "%20"), skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, page: str = "", /, **headers: str) -> Reply:
        """A page of the visit, as a person who follows a link there gets it."""
        return self.send("GET", f"{self.base}/{page}", **headers)

    def page(self, page: str, /, **query: object) -> str:
        """The HTML of a page that is there."""
        found = self.get(f"{page}?{urlencode(query)}" if query else page)
        assert found.status == 200, (page, found.status, found.text)
        return found.text

    def token(self, page: str = "status") -> str:
        """What the forms of this visit repeat."""
        found = _TOKEN.search(self.page(page))
        assert found is not None
        return html.unescape(found[1])

    def act(self, name: str, headers: dict[str, str] | None = None, /, **fields: Any) -> Reply:
        """Send a form as the pages do; `headers` replace those of a browser."""
        usual = {"Origin": self.origin, "Sec_Fetch_Site": "same-origin", "Content_Type": "application/x-www-form-urlencoded"}
        return self.send("POST", f"{self.base}/do/{name}", urlencode(fields).encode(), **(usual | (headers or {})))


def entered(address: str) -> Visitor:
    """The visit that an address with a ticket opens."""
    parts = urlsplit(address)
    reply = Visitor(parts.netloc).send("GET", parts.path)
    assert reply.status == 200, reply.text
    cookie = reply.headers["set-cookie"].partition(";")[0].partition("=")[2]
    target = _TARGET.search(reply.text)
    assert target is not None
    return Visitor(parts.netloc, target[1].rstrip("/"), cookie)


def plain(page: str) -> str:
    """The words of a page, without its markup."""
    return html.unescape(" ".join(re.sub("<[^>]*>", " ", page).split()))

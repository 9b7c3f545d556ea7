"""A real HTTP server with the interface of OpenAI's chat completions."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service:
    """An OpenAI-compatible service whose models behave as their names say.

    `slow-N`, `malformed-N`: the first N requests of each conversation fail; `status-CODE`, `hangup`, `torn`: the
    first one does; `status-CODE-always`, `torn-always`: all do. `stall` lets the first conversation wait.
    Others reply at once.

    Attributes:
        requests: What was asked.
        answers: Requests that are answered, whatever the model; all others wait for `release`. None answers all.
    """

    def __init__(self):
        self.requests = []
        self.running = self.most_running = 0
        self.answers = None
        self.release = threading.Event()
        self.lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):  # noqa: N805
                try:
                    self.answer(handler)
                except OSError:  # the client has gone
                    handler.close_connection = True

            def log_message(handler, *arguments):  # noqa: N805
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self.lock:
            self.running += 1
            self.most_running = max(self.running, self.most_running)
            key = json.dumps(body["messages"])
            earlier = sum(request["key"] == key for request in self.requests)
            self.requests.append(
                {"key": key, "path": handler.path, "auth": handler.headers.get("authorization"), **body}
            )
        try:
            self.behave(body["model"], earlier, body, handler, key)
        finally:
            with self.lock:
                self.running -= 1

    def behave(self, model, earlier, body, handler, key):
        kind, _, count = model.partition("-")
        if kind == "slow" and earlier < int(count):
            time.sleep(2.5)
        if kind == "crowd":
            time.sleep(0.15)
        if kind == "stall" and not self.place(key):
            self.release.wait(60)
        if self.answers is not None and len(self.requests) > self.answers:
            self.release.wait(60)
        if kind == "dribble":
            return dribble(handler)
        if kind == "status" and (count.endswith("always") or not earlier):
            status = int(count.split("-")[0])
            said = "maximum context length is 10 tokens" if "context" in count else "no"
            return send(handler, status, json.dumps({"error": {"message": said}}), {"Retry-After": "0"})
        if kind == "malformed" and earlier < int(count):
            return send(handler, 200, '{"choices": [{"mess')
        if kind == "shapeless":
            return send(handler, 200, json.dumps({"choices": [{"message": {"content": ["left"]}}]}))
        if kind == "hangup" and not earlier:
            handler.close_connection = True
            return handler.connection.close()
        if kind == "torn" and (count == "always" or not earlier):
            handler.close_connection = True
            return send(handler, 200, '{"choices": [{"message": {"content": "<action>le', whole=False)
        text = body["messages"][-1]["content"]
        moves = text.split("Moves that change the board: ")[-1].split(".")[0].split(", ")
        reply, finish = f"<action>{moves[0]}</action>", "stop"
        if kind == "half":
            reply = "<action>up\ud83d</action>"
        if kind == "cut":
            reply, finish = "I would first look at the", "length"
        message = {"role": "assistant", "content": reply}
        if kind == "silent":
            message["content"] = None
        if kind == "parts":
            half = len(reply) // 2
            message["content"] = [{"type": "text", "text": text} for text in (reply[:half], reply[half:])]
        if kind == "thinker":
            message["reasoning_content"] = "Boxes are heavy."
        if kind == "filtered":
            finish = "content_filter"
        if kind == "miser":  # ends every reply early by a limit of its own
            finish = "length"
        if "tools" in body:
            message = self.call(count, moves[0])
        choice = {"index": 0, "message": message, "finish_reason": finish}
        written = {"cut": body["max_tokens"], "miser": 3}.get(kind, 7)
        usage = {"prompt_tokens": 100, "completion_tokens": written}
        found = {"object": "chat.completion", "choices": [choice]}
        return send(handler, 200, json.dumps(found if kind == "uncounted" else {**found, "usage": usage}))

    def place(self, key):
        """Return the place of a conversation among those that came, 0 for the first."""
        return [request["key"] for request in self.requests].index(key)

    def call(self, count, move):
        """Return a message with a tool call."""
        name, arguments = "action", json.dumps({"text": move})
        if count == "garbled":
            arguments = '{"text": "le'
        if count == "unknown":
            name = "shout"
        function = {"name": name, "arguments": arguments}
        calls = [{"id": "call-1", "type": "function", "function": function}]
        if count == "none":
            return {"role": "assistant", "content": f"<action>{move}</action>"}
        return {"role": "assistant", "content": "To the box.", "tool_calls": calls * (2 if count == "twice" else 1)}


def send(handler, status, text, headers=(), *, whole=True):
    """Send an answer; one that is not whole is shorter than it says."""
    data = text.encode()
    handler.send_response(status)
    for name, value in dict(headers).items():
        handler.send_header(name, value)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data) + 40 * (not whole)))
    handler.end_headers()
    handler.wfile.write(data)


def dribble(handler):
    """Send a byte now and then, so that no single wait is long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "400")
    handler.end_headers()
    try:
        for _ in range(400):
            handler.wfile.write(b" ")
            time.sleep(0.05)
    except OSError:  # the client has had enough
        handler.close_connection = True

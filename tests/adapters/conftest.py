"""Services on loopback and a tiny model, for the frameworks' own loops."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent_gym.adapters.episodes import ChatEpisode
from tests.adapters.scripts import ENV_ID, MOVES, OPTIONS, Script, scripts


@pytest.fixture(scope="session")
def played() -> list[Script]:
    """Twenty episodes of Sokoban with wins, turn limits and rejected replies among them."""
    made = scripts()
    assert {script.info["stop_reason"] for script in made} == {"success", "max_turns"}
    assert len({script.total for script in made}) > 3
    return made


@pytest.fixture(scope="session")
def lines(played: list[Script]) -> dict[str, list[str]]:
    """First message of a conversation -> the replies of its script."""
    episode = ChatEpisode(ENV_ID, OPTIONS)
    known = {episode.start(seed=script.seed, task_id=script.task_id): script.replies for script in played}
    assert len(known) == len(played)
    return known


@pytest.fixture(scope="session")
def model_address(lines: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an OpenAI-compatible service that says what the scripts say; its model `broken` fails."""
    pytest.importorskip("verifiers", reason="the extra [verifiers] is not installed")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            turn = sum(message["role"] == "assistant" for message in body["messages"])
            said = {"role": "assistant", "content": lines[body["messages"][0]["content"]][turn]}
            about = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            answer = {**about, "choices": [{"index": 0, "message": said, "finish_reason": "stop"}], "usage": usage}
            data = b"no" if body["model"] == "broken" else json.dumps(answer).encode()
            self.send_response(500 if body["model"] == "broken" else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # verifiers keeps its files in the user's folder
        yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def openenv_address() -> Iterator[str]:
    """Address of OpenEnv's server."""
    pytest.importorskip("openenv", reason="the extra [openenv] is not installed")
    import uvicorn

    from agent_gym.adapters.openenv import create_app
    from tests.retrieval.serving import free_port

    port = free_port()
    server = uvicorn.Server(uvicorn.Config(create_app(ENV_ID, OPTIONS), port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture
def tiny_model(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, dict[str, Any]]:
    """A random model of a few hundred tokens, some of which are whole tool calls; its tokenizer; TRL's settings."""
    pytest.importorskip("trl", reason="the extra [trl] is not installed")
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen2_5_chat_template

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    texts = [qwen2_5_chat_template, ChatEpisode(ENV_ID, OPTIONS).start(seed=0)]
    learner = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    core.train_from_iterator(texts, learner)
    letters = core.get_vocab_size()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    calls = [{"name": "action", "arguments": {"text": move}} for move in MOVES]
    tokenizer.add_tokens([f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls])
    tokenizer.chat_template = qwen2_5_chat_template
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, **shape, **ends)
    settings = {
        "generation_kwargs": {"suppress_tokens": list(range(letters)), "max_new_tokens": 3},
        "use_cpu": True,
        "bf16": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
    }
    return LlamaForCausalLM(config), tokenizer, settings

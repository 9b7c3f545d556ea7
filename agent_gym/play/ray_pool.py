"""Environments in Ray actors, on this machine or all over a cluster (extra `[ray]`).

Losses are repaired as in the process pool (`agent_gym.play.recovery`): an actor or a machine that goes away
takes no episode with it. A call to an actor costs a millisecond or two, which is more than a step of most bundled
worlds, so answers travel in batches; use it for environments that are heavy or that have to live elsewhere.

Actors import the environment's package where they run, so it has to be installed there.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_gym.play.host import IdMaker, SlotHost
from agent_gym.play.recovery import EnvWorker, WorkerPool
from agent_gym.play.worker import Answer, Command, answers, dump
from agent_gym.support.errors import ConfigError

LOCAL = "local"
"""Address that starts Ray on this machine for as long as the process lives."""
_BATCH_SECONDS = 0.02  # answers of an actor are held back this long to travel together
_ACTOR_CPUS = 0.5
_LOCAL_CPUS = 64  # Ray counts CPUs for placement only; small worlds need little of one
_LOCAL_STORE_BYTES = 100 * 2**20


def connect(address: str) -> Any:
    """Join the cluster at an address, or start Ray here; in a process that has joined one already, that one.

    Args:
        address: "local", "auto" (the cluster this machine belongs to), "host:port" or "ray://host:port".

    Returns:
        The `ray` module.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError("environments in Ray actors need the extra: pip install 'agent-gym[ray]'") from error
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    try:
        if address == LOCAL:
            ray.init(
                LOCAL,
                num_cpus=_LOCAL_CPUS,
                object_store_memory=_LOCAL_STORE_BYTES,
                include_dashboard=False,
                **quiet,
            )
        else:
            ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"no Ray cluster at {address!r} ({error}); start one with `ray start --head`, or use {LOCAL!r}"
        ) from error
    return ray


class ActorHost:
    """What runs in an actor: a `SlotHost` whose methods yield pickled lists of answers.

    Args:
        make: Makes one environment.
    """

    def __init__(self, make: IdMaker) -> None:
        self._host = SlotHost(make)

    def prepare(self) -> Iterator[bytes]:
        """Make an environment ahead; yields one answer, whose value is the process id."""
        try:
            self._host.prepare()
            yield pickle.dumps([dump(Answer(None, os.getpid()))])
        except Exception as error:
            yield pickle.dumps([dump(Answer(None, error=error))])

    def execute(self, command: Command, arguments: Mapping[int, Any], singly: bool) -> Iterator[bytes]:
        """Carry out a command; yields answers, several at a time unless they are wanted singly."""
        if command is Command.CLOSE:
            self._host.close()
            return
        held: list[bytes] = []
        since = time.monotonic()
        for answer in answers(self._host, command, arguments):
            held.append(dump(answer))
            if singly or time.monotonic() - since > _BATCH_SECONDS:
                yield pickle.dumps(held)
                held, since = [], time.monotonic()
        if held:
            yield pickle.dumps(held)


class RayWorker(EnvWorker):
    """An actor, and the stream of its answers to the latest command.

    Args:
        ray: The module, connected.
        make: Makes one environment.
    """

    def __init__(self, ray: Any, make: IdMaker) -> None:
        super().__init__()
        self._ray, self._make = ray, make
        self._actor: Any = None
        self.stream: Any = None
        self.pid: int | None = None

    @property
    def started(self) -> bool:
        """Whether there is an actor, alive or not."""
        return self._actor is not None

    def start(self) -> None:
        """Ask the cluster for an actor, spread over its machines."""
        remote = self._ray.remote(ActorHost)
        # Restarts are the pool's business: it knows what the lost episodes were.
        options = {"num_cpus": _ACTOR_CPUS, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        self._actor = remote.options(**options).remote(self._make)
        self.ready, self.pid = False, None
        self.stream = self._actor.prepare.options(num_returns="streaming").remote()

    def kill(self, patience_s: float = 0.0) -> str:
        """End the actor; see `EnvWorker.kill`."""
        actor, self._actor, self.stream = self._actor, None, None
        self.ready, self.pid = False, None
        if actor is not None:
            self._ray.kill(actor, no_restart=True)
        return "its actor or machine went away"

    def send(self, command: Command, arguments: Mapping[int, Any], *, singly: bool = False) -> None:
        """Send a command; see `EnvWorker.send`."""
        method = self._actor.execute.options(num_returns="streaming")
        self.stream = method.remote(command, dict(arguments), singly)

    def receive(self) -> list[Answer] | None:
        """Return the answers that have arrived; see `EnvWorker.receive`."""
        found: list[Answer] = []
        while self.stream is not None:
            if not self._ray.wait([self.stream], timeout=0)[0]:
                break
            try:
                packed = self._ray.get(next(self.stream))
            except StopIteration:
                self.stream = None
                break
            except self._ray.exceptions.RayError:
                return found or None  # the stream fails again when it is asked again
            found += [pickle.loads(answer) for answer in pickle.loads(packed)]
        for answer in found:
            if answer.slot is None and answer.error is None:
                self.pid = answer.value
        return found

    def finish(self, deadline: float) -> None:
        """Wait for the actor to have closed its environments."""
        while self.stream is not None and time.monotonic() < deadline:
            self._ray.wait([self.stream], timeout=max(0.0, deadline - time.monotonic()))
            if self.receive() is None:
                return


class RayPoolRunner(WorkerPool[RayWorker]):
    """Environments in Ray actors; actors that die or hang are replaced.

    Args:
        env_id: Registered id, or `module:id` to import the module that registers it.
        env_kwargs: Arguments of the environment; must be picklable, and paths must exist where actors run.
        n_slots: Number of slots.
        n_workers: Number of actors, at most one a slot; when None, two for each CPU of the cluster or here.
        address: See `connect`.
        timeout_s: See `WorkerPool`.
        max_restarts: See `WorkerPool`. When an actor dies, a slot before the one that killed it may count a
            loss, too, as answers travel in batches; the repeated command shows which one it was.
        start_timeout_s: See `WorkerPool`; includes the time an actor waits for a place in the cluster.

    Raises:
        ConfigError: An argument is out of range, Ray is not installed or no cluster answers.
    """

    def __init__(
        self,
        env_id: str,
        env_kwargs: Mapping[str, Any] | None,
        n_slots: int,
        n_workers: int | None = None,
        *,
        address: str = LOCAL,
        timeout_s: float = 60.0,
        max_restarts: int = 3,
        start_timeout_s: float = 300.0,
    ) -> None:
        self._ray = connect(address)
        make = IdMaker(env_id, dict(env_kwargs or {}))
        if n_workers is None:
            cpus = os.cpu_count() if address == LOCAL else self._ray.cluster_resources().get("CPU")
            n_workers = max(1, int((cpus or 1) / _ACTOR_CPUS))
        workers = [RayWorker(self._ray, make) for _ in range(min(n_slots, n_workers))]
        super().__init__(
            env_id,
            workers,
            n_slots,
            timeout_s=timeout_s,
            max_restarts=max_restarts,
            start_timeout_s=start_timeout_s,
        )

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the actors that have been ready, each on its own machine."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def _wait(self, workers: Sequence[RayWorker], seconds: float) -> None:
        streams = [worker.stream for worker in workers if worker.stream is not None]
        if streams:
            self._ray.wait(streams, num_returns=1, timeout=seconds)
        else:
            time.sleep(min(seconds, _BATCH_SECONDS))

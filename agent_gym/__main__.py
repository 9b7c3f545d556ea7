"""`python -m agent_gym`: the `agent-gym` command, for launchers that start modules."""

from agent_gym.cli.main import main

if __name__ == "__main__":
    main()

"""`python -m agent_gym`: the `agent-gym` command, for launchers that start modules."""

from agent_gym.cli.search_path import working_directory_last

if __name__ == "__main__":
    working_directory_last()  # before anything else is imported

    from agent_gym.cli.main import main

    main()

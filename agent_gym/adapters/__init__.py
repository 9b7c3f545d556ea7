"""The environments inside other frameworks: TRL, verifiers, OpenEnv, SkyRL-gym and GEM.

Each module needs its framework (an extra of the same name) and is imported by whoever uses it; nothing here is
imported with the package. All of them play the same `ChatEpisode`, so rewards, success, limits and reply parsing
are those of `gymnasium.make`.
"""

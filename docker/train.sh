#!/bin/sh
# Trains, or goes on where an earlier container stopped: `--resume` takes no other settings, so they are left out when the
# run folder is there already.
set -eu
output=
previous=
for argument in "$@"; do
  case $previous in --output) output=$argument ;; esac
  case $argument in --output=*) output=${argument#--output=} ;; esac
  previous=$argument
done
if [ -z "$output" ]; then
  echo "name the run folder with --output, on a volume" >&2
  exit 2
fi
export HEALTHCHECK_FILE="$output/metrics.jsonl"
if [ -e "$output/config.json" ]; then
  exec agent-gym train --resume "$output"
fi
exec agent-gym train "$@"

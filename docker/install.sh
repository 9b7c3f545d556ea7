#!/bin/sh
# Installs agent-gym from the current folder into a new virtual environment, with the versions that were tested together.
#
#   docker/install.sh FOLDER EXTRAS      for example: docker/install.sh .venv endpoint,search,webshop
set -eu
folder=$1
extras=$2
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --constraint constraints.txt ".[$extras]"
"$folder/bin/pip" check
# Nothing is installed at run time.
"$folder/bin/pip" uninstall --quiet --yes pip
"$folder/bin/agent-gym" --version

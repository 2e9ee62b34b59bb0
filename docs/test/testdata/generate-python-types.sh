. ./server.sh
. ./npm.sh
packages retry-from-python.md create.py

. ./server.sh
. ./npm.sh
packages retry-from-javascript.md retry.mjs

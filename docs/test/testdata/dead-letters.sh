. ./events-late.sh

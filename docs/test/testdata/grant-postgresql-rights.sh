. ./postgresql.sh

# A machine without a store, and the destination of the lost one.
. ./copied.sh
systemctl stop plantstore
rm -r /var/lib/plantstore
install -d -m 700 -o plantstore -g plantstore /var/lib/plantstore

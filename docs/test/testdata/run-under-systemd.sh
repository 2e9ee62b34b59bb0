# The units as an unpacked archive has them.
mkdir /home/reader/share
cp -r /home/reader/plantstore/deploy/systemd /home/reader/share

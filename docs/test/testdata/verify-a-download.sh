# A signed release with one archive, in the home directory of the reader. Its key has no password.
bin=/opt/docs-test/bin
repository=/home/reader/plantstore
at=2026-03-03T12:00:00Z
cd "$(mktemp -d)"
mkdir -p tree/man tree/completions
cp "$bin/plantstore" "$repository/LICENSE" "$repository/THIRD_PARTY_NOTICES" "$repository/CHANGELOG.md" tree
touch tree/man/plantstore.1 tree/man/plantstore.yaml.5 # tools/manual-pages.sh writes the real ones
"$repository/tools/shared-files.sh" tree/share
for shell in bash zsh fish powershell; do
	"$bin/plantstore" completion "$shell" > "tree/completions/plantstore.$shell"
done
cd /home/reader
"$bin/release" archive "$OLDPWD/tree" "$at" plantstore_1.0.0 > plantstore_1.0.0_linux_amd64.tar.gz
echo '{}' > plantstore_1.0.0_linux_amd64.tar.gz.cdx.json
touch plantstore_1.0.0_linux_arm64.tar.gz
sha256sum plantstore_1.0.0_* > SHA256SUMS
rm plantstore_1.0.0_linux_arm64.tar.gz
minisign -G -W -p plantstore.pub -s /root/key > /dev/null
minisign -S -W -s /root/key -m SHA256SUMS -t 'plantstore 1.0.0, commit 1234567' > /dev/null
chown reader -- *
rm /usr/local/bin/plantstore

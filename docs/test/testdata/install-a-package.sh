# Two versions of the packages in the home directory of the reader. The older one has other files: a program, a settings file
# and a unit. The manual pages are empty: the tests of tools/packages have the real ones.
#
# Another process may be installing packages on the machine below this one. Wait until dpkg has written its state.
for _ in $(seq 600); do
	compgen -G '/var/lib/dpkg/updates/[0-9]*' > /dev/null || break
	sleep 0.2
done
bin=/opt/docs-test/bin
repository=/home/reader/plantstore
cd "$(mktemp -d)"
mkdir completions manual old
touch manual/plantstore.1 manual/plantstore.yaml.5
"$bin/plantstore" completion bash > completions/plantstore.bash
"$bin/plantstore" completion zsh > completions/_plantstore
"$bin/plantstore" completion fish > completions/plantstore.fish

"$repository/tools/shared-files.sh" share
cp -r "$repository/deploy" "$repository/LICENSE" "$repository/THIRD_PARTY_NOTICES" "$repository/CHANGELOG.md" old
sed -i '/base-url/d' old/deploy/package/plantstore.yaml
sed -i 's/^Description=.*/Description=Plant Store 1.0.0/' old/deploy/systemd/plantstore.service
cp "$bin/plantstore" program
printf 'another build' >> program

version=$(sed -n 's/^const version = "\(.*\)"$/\1/p' "$repository/cmd/plantstore/version.go")
build="$bin/packages -completions completions -manual manual -share share -out /home/reader"
$build -root old -version "$version" -time 2026-01-01T00:00:00Z program
$build -root "$repository" -version 2.0.0 -time 2026-02-01T00:00:00Z "$bin/plantstore"
rm /usr/local/bin/plantstore # /usr/bin has the program of the package
rm -f /usr/sbin/policy-rc.d  # of a container: it forbids packages to start services
ln -sf /bin/true /usr/bin/mandb # the index of all manual pages of this machine takes a while
rm -rf /etc/plantstore /var/lib/plantstore

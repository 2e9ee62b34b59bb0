#!/bin/sh
# Runs the long forms of tests, each by its name: long-tests.sh [PACKAGE…]. Without PACKAGE, it runs the long forms of all packages.
#
# A test that -short skips, or runs with less data, needs its name here.
set -eu
cd "$(dirname "$0")/.."

all='internal/acme internal/backup internal/console internal/dump internal/s3 internal/server internal/sqlite internal/trace cmd/plantstore site'
for package in ${*:-$all}; do
	script=
	case $package in
	internal/acme) names='RenewsWhenTheCAReturns|WrongDomain|ServerNamesCauseNoOrder|Replicas(Order|Renew)Once|'
		names=$names'StorageThatIsFull|ChangeOfDirectory' ;;
	internal/backup) names='BucketIsAway|Interleavings(OfStandbys|FindFaults)?' ;;
	internal/console) names='.*InBrowser|Screenshots|Lighthouse' ;;
	internal/dump) names='PlantTooLarge' ;;
	internal/s3) names='LongList' ;;
	internal/server) names='InvalidCredentialsTakeTheSameTime|NoBreakingChange' ;;
	internal/sqlite) names='RestoreToEachCommit' ;;
	internal/trace) names='RealCollector' ;;
	cmd/plantstore) names='Provider|LargestPlantInEveryFormat|CommandsUnderLoad|PlantsOfManyClientsAreExportedUnchanged|'
		names=$names'PasswordsStayHidden|Upgrade|RollingUpgrade|NextSchema' script='|^TestScript$/^import_long_row$' ;;
	site) names='Site' ;;
	*)
		printf 'long-tests: "%s" has no long forms; use one of %s\n' "$package" "$all" >&2
		exit 2
		;;
	esac
	printf 'long-tests: %s\n' "$package" >&2
	(cd "$package" && go test -count=1 -timeout=30m -run="^Test($names)\$$script" .)
done

package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SetListTime sets the time in which the destination must list the backups for State.
func (s *Service) SetListTime(d time.Duration) { s.newest.timeMax = d }

// ExpireLastBackup makes the next call of State list the backups.
func (s *Service) ExpireLastBackup() {
	s.newest.mu.Lock()
	defer s.newest.mu.Unlock()
	s.newest.at = time.Time{}
}

// SetRejectsMax sets the largest number of rejects of an import.
func (s *Service) SetRejectsMax(n int) { s.rejectsMax = n }

// SetRejectsKept sets the largest number of bytes of the rejects of ended imports.
func (s *Service) SetRejectsKept(bytes int) { s.imports.rejectsMax = bytes }

// SetKeptFreeMin sets the bytes that a kept file leaves free on the disk.
func (s *Service) SetKeptFreeMin(bytes int64) { s.keptFreeMin = bytes }

// Severities returns the severities of the conditions by id.
func Severities() map[string][]Severity {
	all := map[string][]Severity{}
	for _, c := range conditions {
		all[c.id] = append(all[c.id], c.severity)
	}
	return all
}

// RuleLimits returns what the expressions of alert rules contain, by alert and severity.
func RuleLimits() map[string][]string {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
	days := func(d time.Duration) string { return fmt.Sprintf("%.0f * 86400", d.Hours()/24) }
	expires := func(e expiry) []string { return []string{fmt.Sprintf(") / %.0f, %s )", e.share, days(e.most))} }
	return map[string][]string{
		"PlantStoreBackupMissing ticket":      {"> " + days(backupAgeMax)},
		"PlantStoreCopyLate ticket":           {"plantstore_copy_lag_seconds > " + seconds(copyLagMax)},
		"PlantStoreStandbyBehind ticket":      {"plantstore_standby_lag_seconds > " + seconds(behindMax)},
		"PlantStoreEventsLate ticket":         {"> " + seconds(eventAgeMax)},
		"PlantStoreIssuerKeysOld ticket":      {"plantstore_oidc_keys_age_seconds < " + seconds(keysAgeMax)},
		"PlantStoreCertificateExpires page":   expires(expirySoon),
		"PlantStoreCertificateExpires ticket": expires(expiryLater),
		"PlantStoreDiskFills page":            {fmt.Sprintf("%.0f * 3600) < 0", fillsSoon.within.Hours())},
		"PlantStoreDiskFills ticket":          {", " + seconds(fillsLater.within) + ") < 0"},
		"PlantStoreDiskTooSmall ticket": {
			"plantstore_store_disk_free_bytes < plantstore_store_bytes + plantstore_wal_bytes + " +
				strings.Replace(strconv.FormatFloat(diskSpare, 'e', 0, 64), "e+0", "e", 1),
		},
		"PlantStoreBackupDiskTooSmall ticket": {
			"plantstore_backup_disk_free_bytes < plantstore_store_bytes + plantstore_wal_bytes",
		},
		"PlantStoreSegmentsGrow ticket": {
			"plantstore_copy_merge_lag_seconds > " + seconds(mergeLagMax),
			fmt.Sprintf("plantstore_copy_segments > %d", segmentsMax),
		},
		"PlantStoreWALGrows ticket": {"plantstore_wal_bytes > plantstore_wal_max_bytes"},
	}
}

package adminapi

import (
	"time"

	"plantstore/internal/server"
)

// SetPartTime sets the time in which a client must accept a part of a stream.
func (a *API) SetPartTime(d time.Duration) { a.partTime = d }

// SetUploadLimits sets the limits of the files of imports.
func (a *API) SetUploadLimits(l server.UploadLimits) { a.uploads = l }

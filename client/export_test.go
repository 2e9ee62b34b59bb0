package client

// ParseHead is parseHead, for the status 200.
func ParseHead(head []byte) (ok bool) {
	_, _, ok = parseHead(head)
	return ok
}

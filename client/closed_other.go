//go:build !unix

package client

// closed reports true: without a check, an idle connection may have data that belongs to no request, and the client would
// read it as the response to the next one. So on this system the client uses a connection again only within checkAfter.
func (c *conn) closed() bool { return true }

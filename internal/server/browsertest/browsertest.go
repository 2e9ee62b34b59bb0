// Package browsertest starts Chromium for tests.
package browsertest

import (
	"context"
	"os"
	"time"

	"github.com/chromedp/chromedp"
)

// Start starts Chromium, whose path is program, with one page, for at most timeMax. It returns the context of the page.
// The browser sends no requests of its own. The caller calls stop, which waits for the process.
func Start(ctx context.Context, program string, timeMax time.Duration) (_ context.Context, stop func(), err error) {
	dir, err := os.MkdirTemp("/tmp", "browser") // TMPDIR may be too long for the path of a socket, 108 bytes
	if err != nil {
		return nil, nil, err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.Headless, chromedp.UserDataDir(dir + "/profile"),
		chromedp.Env("HOME="+dir, "TMPDIR="+dir),
	}
	for _, flag := range []string{
		"no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "no-default-browser-check",
		"disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage",
		"disable-extensions", "disable-breakpad", "no-proxy-server", "hide-scrollbars",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeMax) // stop closes the browser
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	ctx, _ = chromedp.NewContext(ctx)
	return ctx, func() {
		_ = chromedp.Cancel(ctx) // waits for the process
		end()
		cancel()
		_ = os.RemoveAll(dir) // ignore the error: a process of the browser may still write files
	}, nil
}

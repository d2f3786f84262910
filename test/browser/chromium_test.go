//go:build linux

package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// startChromium starts the browser that all tests share: $CHROMIUM, or one that is installed.
func startChromium(ctx context.Context, profile string) (stop func(), err error) {
	program, err := findChromium()
	if err != nil {
		return nil, err
	}
	// It leaves a directory here, with a socket: the name must be short.
	temporary, err := os.MkdirTemp("", "c")
	if err != nil {
		return nil, err
	}
	flags := append(
		chromedp.DefaultExecAllocatorOptions[:], chromedp.Env("TMPDIR="+temporary),
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", false), // as people see them
		chromedp.Flag("lang", "en-US"),
	)
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(ctx), flags...)
	browser, cancel := chromedp.NewContext(allocator)
	stop = func() {
		cancel()
		end()
		_ = os.RemoveAll(temporary) // nothing of the tests
	}
	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	chromium = browser //nolint:fatcontext // it is set once
	return stop, nil
}

func findChromium() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "headless_shell"}
	if own := os.Getenv("CHROMIUM"); own != "" {
		names = []string{own}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium is installed: run `make page`, which provides one, or name it in CHROMIUM")
}

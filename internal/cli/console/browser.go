package console

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// browserPatience is how long to wait for the program that opens the browser to fail.
const browserPatience = 2 * time.Second

// Browse opens a file or an address in the user's browser, with the program in BROWSER or the system's opener. Other
// users of the machine may see the argument.
func Browse(ctx context.Context, page string) error {
	opener := map[string][]string{
		"darwin":  {"open"},
		"windows": {"rundll32", "url.dll,FileProtocolHandler"},
	}[runtime.GOOS]
	if named := os.Getenv("BROWSER"); named != "" {
		opener = []string{named}
	} else if opener == nil {
		opener = []string{"xdg-open"}
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("there is no display")
		}
	}
	browser := exec.Command(opener[0], append(opener[1:], page)...)
	if err := browser.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- browser.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(browserPatience): // still running: it is the browser itself
	case <-ctx.Done():
	}
	return nil
}

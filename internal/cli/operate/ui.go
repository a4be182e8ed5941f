package operate

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// openDashboard opens the dashboard of r in a browser, unless printOnly is set, and prints its address.
func openDashboard(ctx context.Context, c *console.Console, r *hosts.Running, printOnly bool) error {
	url, token, err := signIn(r)
	if err != nil {
		return err
	}
	signedIn := url + "#token=" + token
	if !printOnly && console.IsTerminal(c.Out) {
		if err := browse(ctx, signedIn); err != nil {
			c.Warn("no browser was opened: %s", console.Safe(err.Error()))
		}
	}
	return c.Print(console.Document{
		Kind:  "dashboard",
		Names: []string{signedIn},
		Text:  signedIn,
		Value: struct {
			URL   string `json:"url"`
			Token string `json:"token"`
		}{url, token},
	})
}

// signIn returns the address of the dashboard and the operator's token.
func signIn(r *hosts.Running) (url, token string, err error) {
	url, ok := hosts.Dashboard(r.Info.Serves)
	if !ok {
		return "", "", &console.Error{
			Code: console.ExitNotFound,
			Text: fmt.Sprintf("the running host (pid %d) serves %s, and has no dashboard", r.Info.PID, r.Info.Serves),
			Hint: "exthost serve, which serves HTTP",
		}
	}
	file, err := hosts.TokenFile()
	if err != nil {
		return "", "", err
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", &console.Error{
			Code: console.ExitNotFound,
			Text: "the operator's token is gone: there is no " + file,
			Hint: "start exthost serve again, which makes one",
		}
	}
	return url, strings.TrimSpace(string(data)), err
}

// browse opens a page in the user's browser. It passes the token in a file that only this user can read, because other
// users can see the arguments of a program.
func browse(ctx context.Context, url string) error {
	page, err := hosts.DashboardFile()
	if err != nil {
		return err
	}
	if err := os.Remove(page); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(page, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%s\">\n",
		html.EscapeString(url))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return console.Browse(ctx, page)
}

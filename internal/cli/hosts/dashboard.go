package hosts

import (
	"path/filepath"
	"strings"

	"github.com/exthost/exthost"
)

// Dashboard returns the address of the dashboard of a host, from its address for clients; false for a host on stdio or
// one that is starting.
func Dashboard(serves string) (url string, ok bool) {
	base, ok := strings.CutSuffix(serves, "/mcp")
	return base + "/ui/", ok
}

// TokenFile returns the file with the operator's token, which exists while a host serves HTTP. It cannot collide with
// an extension's directory: ids do not begin with a dot.
func TokenFile() (string, error) { return inState(".operator-token") }

// DashboardFile returns the file that opens the dashboard in a browser.
func DashboardFile() (string, error) { return inState(".dashboard.html") }

func inState(name string) (string, error) {
	dir, err := exthost.DefaultStateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}

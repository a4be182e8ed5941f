// Package version implements exthost version, which says what this program is and, when asked to, whether a newer one
// is released.
package version

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
)

// releases is the address of the project's releases, from which install.sh takes them too. A build of a fork states its
// own: -ldflags "-X github.com/exthost/exthost/internal/cli/version.releases=https://HOST/PATH".
var releases = "https://github.com/exthost/exthost/releases"

// releasesVariable names a mirror in place of releases, as for install.sh.
const releasesVariable = "EXTHOST_RELEASES"

// Text returns the line of exthost --version: the version, the toolchain, the system, and slim for a slim build.
func Text() string {
	text := fmt.Sprintf("exthost %s %s %s/%s", exthost.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if slim {
		text += " slim"
	}
	return text
}

// report is the output of exthost version.
type report struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
	Slim     bool   `json:"slim"`
	Latest   *found `json:"latest,omitempty"` // nil: nobody has asked
}

// found is the latest release.
type found struct {
	Version string `json:"version"`
	Newer   bool   `json:"newer"` // than this program
	// Upgrade is the command that installs it as this program was installed; "" if it is not newer.
	Upgrade string `json:"upgrade,omitempty"`
}

// Command returns exthost version.
func Command(c *console.Console) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version; --check: ask whether there is a newer one",
		Long: "Print the version of this program, of the Go toolchain that built it, and the system\n" +
			"it is for. With --check, ask the project's releases once whether there is a newer\n" +
			"version, and print the command that installs it. The program never asks by itself.\n\n" +
			"--check reads " + releases + "\nover https, through the proxy of the environment " +
			"(HTTPS_PROXY). " + releasesVariable + "\nnames a mirror. A newer version is no failure: the exit code " +
			"is 0.",
		Example: "  exthost version --check\n  exthost version -o json",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := report{
				Version:  exthost.Version(),
				Go:       runtime.Version(),
				Platform: runtime.GOOS + "/" + runtime.GOARCH,
				Slim:     slim,
			}
			if check {
				latest, err := ask(cmd.Context())
				if err != nil {
					return err
				}
				r.Latest = latest
			}
			return c.Print(console.Document{
				Kind:  "program",
				Value: r,
				Names: []string{r.Version},
				Text:  r.text(),
			})
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "ask once whether there is a newer version")
	return cmd
}

func (r *report) text() string {
	lines := []string{Text()}
	switch l := r.Latest; {
	case l == nil:
	case l.Newer:
		lines = append(lines, "exthost "+l.Version+" is newer", "  next: "+l.Upgrade)
	case semver.Compare("v"+r.Version, "v"+l.Version) > 0:
		lines = append(lines, "it is newer than the latest release, "+l.Version)
	default:
		lines = append(lines, "it is the latest release")
	}
	return strings.Join(lines, "\n")
}

// ask returns the latest release.
func ask(ctx context.Context) (*found, error) {
	s, err := newSource(cmp.Or(os.Getenv(releasesVariable), releases))
	if err != nil {
		return nil, err
	}
	defer s.client.CloseIdleConnections()
	version, err := s.latest(ctx)
	if err != nil {
		return nil, err
	}
	f := &found{Version: version, Newer: semver.Compare("v"+version, "v"+exthost.Version()) > 0}
	if f.Newer {
		f.Upgrade = thisProgram().upgrade(s.address, version)
	}
	return f, nil
}

// thisProgram finds out how this program was installed.
func thisProgram() installed {
	i := installed{os: runtime.GOOS, arch: runtime.GOARCH, slim: slim, exists: exists, root: os.Geteuid() == 0}
	if path, err := os.Executable(); err == nil {
		i.path = path
		if real, err := filepath.EvalSymlinks(path); err == nil {
			i.path = real
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		i.module = info.Main.Sum != "" // go install of a version; a checkout has no checksum
	}
	return i
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

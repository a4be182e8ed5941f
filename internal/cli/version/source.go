package version

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/semver"

	"github.com/exthost/exthost/internal/cli/console"
)

const (
	maxChecksums = 128 << 10 // bytes of checksums.txt, as in install.sh
	maxRedirects = 5
	maxVersion   = 64 // bytes of a version
	timeout      = 20 * time.Second
)

// source is where releases are published.
type source struct {
	address string // without a slash at its end
	client  *http.Client
}

func newSource(address string) (*source, error) {
	address = strings.TrimRight(address, "/")
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, &console.Error{
			Code: console.ExitInvalid,
			Text: releasesVariable + " is no https address of releases", // it may have a password
			Hint: "unset it, or name a mirror: " + releasesVariable + "=https://HOST/PATH",
		}
	}
	t := http.DefaultTransport.(*http.Transport).Clone() // with the proxies of the environment
	t.DisableCompression, t.MaxResponseHeaderBytes = true, 64<<10
	return &source{address, &http.Client{Transport: t, Timeout: timeout, CheckRedirect: redirect}}, nil
}

// redirect refuses redirects to other hosts than the first, and those that are not https. GitHub keeps the files of
// releases at hosts below githubusercontent.com.
func redirect(to *http.Request, via []*http.Request) error {
	home, host := via[0].URL.Host, to.URL.Host
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	case to.URL.Scheme != "https":
		return fmt.Errorf("it redirects to an address that is not https: %.200q", to.URL.Redacted())
	case !strings.EqualFold(host, home) &&
		!(home == "github.com" && strings.HasSuffix(strings.ToLower(host), ".githubusercontent.com")):
		return fmt.Errorf("it redirects to another host: %.200q", host)
	}
	return nil
}

// latest returns the version of the latest release, which has a program for this system.
func (s *source) latest(ctx context.Context) (string, error) {
	address := s.address + "/latest/download/checksums.txt"
	text, err := s.get(ctx, address)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	version := ""
	if err == nil {
		version, err = versionIn(text)
	}
	if err == nil {
		return version, nil
	}
	e := &console.Error{
		Code:  console.ExitFailed,
		Text:  fmt.Sprintf("the latest release cannot be found out: %s: %v", address, err),
		Hint:  "try again later or from another network; " + releasesVariable + " names a mirror",
		Cause: err,
	}
	if os.IsTimeout(err) {
		e.Code = console.ExitCanceled
	}
	return "", e
}

func (s *source) get(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("User-Agent", "exthost") // and nothing else of this program
	resp, err := s.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the address is named by the caller
		}
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxChecksums+1))
	if err == nil && len(data) > maxChecksums {
		err = fmt.Errorf("it has more than %d KiB", maxChecksums>>10)
	}
	return string(data), err
}

// archives matches the archives of this program for this system in checksums.txt.
var archives = sync.OnceValue(func() *regexp.Regexp {
	name := "exthost"
	if slim {
		name += "-slim"
	}
	return regexp.MustCompile(`(?m)^[0-9a-f]{64}  ` + name + `_([0-9A-Za-z.+-]+)_` + runtime.GOOS + "_" +
		runtime.GOARCH + `\.(?:tar\.gz|zip)$`)
})

// versionIn returns the version of the one archive for this system that checksums state.
func versionIn(checksums string) (string, error) {
	all := archives().FindAllStringSubmatch(checksums, 2)
	if len(all) == 0 {
		return "", fmt.Errorf("it states no program for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	version := all[0][1]
	if len(all) > 1 || len(version) > maxVersion || !semver.IsValid("v"+version) {
		return "", fmt.Errorf("it states no single version for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	return version, nil
}

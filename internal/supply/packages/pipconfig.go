package packages

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/supply/packages/credentials"
	"github.com/exthost/exthost/internal/supply/packages/program"
)

// pipConfig is which index pip asks, and with what.
type pipConfig struct {
	index  string
	origin origin
	env    []string // what pip is started with
}

const defaultIndex = "https://pypi.org/simple"

// kept are the settings of pip that decide how it connects.
var kept = []string{
	"cert",
	"client-cert",
	"proxy",
	"timeout",
	"default-timeout",
	"retries",
	"keyring-provider",
	"cache-dir",
}

// readPipConfig asks pip, so that files and variables count as they do for pip, and leaves out
// what would make it take packages from elsewhere.
func readPipConfig(ctx context.Context, dir string, env []string) (*pipConfig, error) {
	out, err := (program.Program{Dir: dir, Argv: []string{"python3", "-m", "pip", "config", "list"}, Env: env}).Run(ctx)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	rank := map[string]int{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		section, name, dotted := cutSection(key)
		if !ok || !dotted {
			continue
		}
		if order := slices.Index([]string{"global", "install", ":env:"}, section) + 1; order >= rank[name] &&
			order > 0 {
			values[name], rank[name] = strings.Trim(value, `'"`), order
		}
	}
	c := &pipConfig{index: values["index-url"]}
	if c.index == "" {
		c.index = defaultIndex
	}
	if c.origin, err = indexOrigin(c.index, env); err != nil {
		return nil, err
	}
	if values["extra-index-url"] != "" {
		return nil, errors.New("pip is told of a second index (extra-index-url), where anybody may publish a name of " +
			"the first; pip config unset global.extra-index-url, and PIP_INDEX_URL for the one that counts")
	}
	for _, v := range env {
		if !strings.HasPrefix(strings.ToUpper(v), "PIP_") && !strings.HasPrefix(v, "PYTHON") {
			c.env = append(c.env, v)
		}
	}
	// no argument: it may hold a password, and others see arguments
	c.env = append(c.env, "PIP_CONFIG_FILE="+os.DevNull, "PIP_INDEX_URL="+c.index)
	for _, name := range kept {
		if values[name] != "" {
			c.env = append(c.env, "PIP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+values[name])
		}
	}
	return c, nil
}

// indexOrigin is the origin of an index: its address says who asks, or a netrc does.
func indexOrigin(index string, env []string) (origin, error) {
	o := origin{registries: []string{index}, of: func(string) string { return index }}
	u, err := url.Parse(index)
	if err != nil || u.User != nil {
		return o, nil // which the client sends, or refuses
	}
	header, err := credentials.Netrc(env, u.Hostname())
	if header != "" {
		o.credentials = map[string]string{"//" + strings.TrimSuffix(strings.ToLower(u.Host), ":443") + "/": header}
	}
	return o, err
}

// cutSection splits global.index-url and :env:.index-url.
func cutSection(key string) (section, name string, ok bool) {
	n := strings.LastIndexByte(key, '.')
	if n < 0 {
		return "", "", false
	}
	return key[:n], key[n+1:], true
}

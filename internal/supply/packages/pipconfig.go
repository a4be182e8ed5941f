package packages

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
)

// pipConfig is the index that pip uses, and how pip is started.
type pipConfig struct {
	index  string
	origin origin
	env    []string // environment for pip
}

const defaultIndex = "https://pypi.org/simple"

// kept are the names of pip's settings for connections. Their values are passed on to pip.
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

// readPipConfig asks pip for its settings, so that files and variables have pip's precedence. It drops the
// settings that add other sources of packages.
func readPipConfig(ctx context.Context, dir string, env []string) (*pipConfig, error) {
	out, err := (command{dir: dir, argv: []string{"python3", "-m", "pip", "config", "list"}, env: env}).run(ctx)
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
		order := slices.Index([]string{"global", "install", ":env:"}, section) + 1 // of precedence
		if order > 0 && order >= rank[name] {
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
	// in the environment and not in an argument: it may contain a password, and other users can read arguments
	c.env = append(c.env, "PIP_CONFIG_FILE="+os.DevNull, "PIP_INDEX_URL="+c.index)
	for _, name := range kept {
		if values[name] != "" {
			c.env = append(c.env, "PIP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+values[name])
		}
	}
	return c, nil
}

// indexOrigin returns the origin of an index, with credentials from its URL or a netrc.
func indexOrigin(index string, env []string) (origin, error) {
	o := origin{registries: []string{index}, registryOf: func(string) string { return index }}
	u, err := url.Parse(index)
	if err != nil || u.User != nil {
		return o, nil // the client sends the credentials in the URL, or refuses it
	}
	header, err := netrcHeader(env, u.Hostname())
	if header != "" {
		o.credentials = map[string]string{"//" + strings.TrimSuffix(strings.ToLower(u.Host), ":443") + "/": header}
	}
	return o, err
}

// cutSection splits global.index-url or :env:.index-url at the last dot.
func cutSection(key string) (section, name string, ok bool) {
	n := strings.LastIndexByte(key, '.')
	if n < 0 {
		return "", "", false
	}
	return key[:n], key[n+1:], true
}

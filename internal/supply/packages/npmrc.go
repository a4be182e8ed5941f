package packages

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/process"
)

const maxCredentials = 1 << 20 // bytes

// npmCredentials returns Authorization headers by URL prefix, such as "//host/path/", from .npmrc files and
// npm_config_ variables. A later file overrides earlier ones, and variables override all files. Missing files are
// ignored.
func npmCredentials(env []string, files ...string) (map[string]string, error) {
	look := process.Lookup(env)
	values := map[string]string{}
	for _, path := range files {
		data, _, err := file.ReadRegular(path, maxCredentials, true)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
				break // npm ignores keys in sections
			}
			if key, value, ok := strings.Cut(line, "="); ok {
				values[expandNPM(npmLiteral(key), look)] = expandNPM(npmLiteral(value), look)
			}
		}
	}
	for _, v := range env {
		const prefix = "npm_config_" // in any case
		name, value, ok := strings.Cut(v, "=")
		if ok && len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			values[name[len(prefix):]] = expandNPM(value, look)
		}
	}
	return npmHeaders(values), nil
}

// npmHeaders builds Authorization headers from npm settings.
func npmHeaders(values map[string]string) map[string]string {
	list := map[string]string{}
	for key := range values {
		colon := max(0, strings.LastIndexByte(key, ':'))
		at, kind := key[:colon], strings.TrimPrefix(key[colon:], ":")
		if !strings.HasPrefix(at, "//") || strings.HasPrefix(at+"/", "///") ||
			kind != "_authToken" && kind != "_auth" && kind != "_password" {
			continue
		}
		var header string
		password, err := base64.StdEncoding.DecodeString(values[at+":_password"])
		switch token, auth, user := values[at+":_authToken"], values[at+":_auth"], values[at+":username"]; {
		case token != "":
			header = "Bearer " + token
		case auth != "":
			header = "Basic " + auth
		case user != "" && len(password) > 0 && err == nil:
			header = basicAuth(user, string(password))
		}
		if header != "" && !strings.Contains(header, "${") { // a variable is not set
			list[at] = header
		}
	}
	return list
}

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

var npmComment = regexp.MustCompile(`(^|[^\\])[;#].*$`)

// npmLiteral removes quotes and a trailing comment from a key or value.
func npmLiteral(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > 1 && text[0] == '\'' && text[len(text)-1] == '\'' {
		text = text[1 : len(text)-1]
	}
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		var plain string
		if json.Unmarshal([]byte(text), &plain) == nil {
			return plain
		}
		return text
	}
	text = npmComment.ReplaceAllString(text, "$1")
	return strings.TrimSpace(strings.NewReplacer(`\\`, `\`, `\;`, ";", `\#`, "#").Replace(text))
}

var npmVariable = regexp.MustCompile(`\$\{([^${}?]+)(\?)?\}`)

// expandNPM replaces ${NAME} and ${NAME?} by the value of the variable. If it is not set, ${NAME?} becomes "", and
// ${NAME} stays.
func expandNPM(text string, look func(string) (string, bool)) string {
	return npmVariable.ReplaceAllStringFunc(text, func(word string) string {
		m := npmVariable.FindStringSubmatch(word)
		if value, ok := look(m[1]); ok {
			return value
		}
		if m[2] != "" {
			return ""
		}
		return word
	})
}

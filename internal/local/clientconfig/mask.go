package clientconfig

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/redact"
)

// masker replaces the secrets in a file.
type masker struct {
	plain     bool // leave secrets as they are, and replace placeholders alone
	note      func(name, format string, args ...any)
	store     func(name, value string) bool // see [Options]
	variables map[string]string             // secret by replacing variable
	stored    map[string]string             // secret by name in the store
}

// maskSecrets replaces secrets by references to stored secrets or variables.
func (m *masker) maskSecrets(s *Server) {
	option := ""
	s.eachValue(func(where, value string) string {
		kind, name, _ := strings.Cut(where, ".")
		switch {
		case strings.HasPrefix(where, "args["):
			return m.maskArgument(s, where, &option, value)
		case where == "url":
			return m.maskValue(s, where, "URL", m.maskURL(s, where, value))
		case kind == "headers":
			return m.maskHeader(s, where, name, value)
		case where == "oauth.client_id": // public, and a manifest allows no variable there
			return value
		}
		return m.maskValue(s, where, variableName(cmp.Or(name, kind)), value)
	})
}

func (m *masker) maskHeader(s *Server, where, name, value string) string {
	switch {
	case strings.EqualFold(name, "Cookie"):
		return m.replace(s, where, "COOKIE", value)
	case strings.EqualFold(name, "Authorization"), strings.EqualFold(name, "Proxy-Authorization"):
		if scheme, token, ok := strings.Cut(value, " "); ok {
			return scheme + " " + m.maskValue(s, where, "TOKEN", token)
		}
		return m.maskValue(s, where, "TOKEN", value)
	}
	return m.maskValue(s, where, variableName(name), value)
}

// maskTree replaces the secrets in settings. Short values with names like key stay: settings have many of them,
// unlike environments.
func (m *masker) maskTree(s *Server, where string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range inOrder(v) {
			v[key] = m.maskMember(s, where, key, member)
		}
	case []any:
		option := ""
		for i, member := range v {
			at := fmt.Sprintf("%s[%d]", where, i)
			if text, ok := member.(string); ok {
				v[i] = m.maskArgument(s, at, &option, text)
			} else {
				v[i] = m.maskTree(s, at, member)
			}
		}
	}
	return v
}

// maskMember is maskTree for one member of a table.
func (m *masker) maskMember(s *Server, where, key string, v any) any {
	at := strings.TrimPrefix(where+"."+key, ".")
	text, isText := v.(string)
	switch kind := where[strings.LastIndexByte(where, '.')+1:]; {
	case kind == "env":
		if text, ok := scalar(v); ok {
			if masked := m.maskValue(s, "env."+key, key, text); masked != text {
				return masked
			}
		}
		return v
	case !isText:
		return m.maskTree(s, at, v)
	case kind == "headers":
		return m.maskHeader(s, at, key, text)
	case isURL.MatchString(text):
		return m.maskValue(s, at, "URL", m.maskURL(s, at, text))
	case len(text) < 8 || strings.ContainsAny(text, " /"):
		return m.maskValue(s, at, "", text)
	}
	return m.maskValue(s, at, variableName(key), text)
}

// optionName returns the variable name for an option's value.
func optionName(option string) string { return variableName(strings.TrimLeft(option, "-")) }

var notInNames = regexp.MustCompile(`[^A-Z0-9]+`)

func variableName(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToUpper(name), "_"), "_")
}

// assignment matches an argument that sets a variable, such as docker run -e NAME=value.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// maskArgument replaces a secret in an argument: by its form, as the value of an option, or as the value of a
// variable. option is the preceding option, or "", and is updated for the next argument.
func (m *masker) maskArgument(s *Server, where string, option *string, value string) string {
	before := *option
	*option = ""
	name, rest, assigns := strings.Cut(value, "=")
	switch {
	case assigns && strings.HasPrefix(name, "-"):
		return name + "=" + m.maskOperand(s, where, optionName(name), rest)
	case strings.HasPrefix(value, "-"):
		*option = optionName(value) // the next argument may be its value
		return m.maskValue(s, where, "", value)
	}
	return m.maskOperand(s, where, before, value)
}

func (m *masker) maskOperand(s *Server, where, option, value string) string {
	switch {
	case isURL.MatchString(value) && (option == "" || !isSecret(option, value)):
		value = m.maskURL(s, where, value)
	case assignment.MatchString(value) && !isSecret(option, "x"):
		name, rest, _ := strings.Cut(value, "=")
		return name + "=" + m.maskValue(s, where, variableName(name), rest)
	}
	return m.maskValue(s, where, option, value)
}

var isURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// isSecret reports whether a value is a secret by its name, or a URL with a password.
func isSecret(name, value string) bool { return len(process.Secrets([]string{name + "=" + value})) > 0 }

// looksSecret reports whether a value has the form of a secret.
func looksSecret(value string) bool {
	masked, _ := redact.Default().Text(value)
	return masked != value
}

// maskValue returns a reference if value is a secret by name or form, else value.
func (m *masker) maskValue(s *Server, where, name, value string) string {
	if placeholder.MatchString(value) {
		return m.variable(s, where, cmp.Or(name, "VALUE"), value, "a placeholder: set %s to the value")
	}
	if m.plain {
		return value
	}
	if reference.MatchString(value) || secrets.Refers(value) {
		value = m.maskDefaults(s, where, name, value)
		rest := reference.ReplaceAllString(value, "")
		rest, err := secrets.Replace(rest, func(string) (string, error) { return "", nil })
		if err != nil || looksSecret(rest) {
			return m.replace(s, where, name, value)
		}
		return value
	}
	if value == "" || !isSecret(name, value) && !looksSecret(value) {
		return value
	}
	return m.replace(s, where, name, value)
}

// placeholder matches what a README writes where a value of the user's belongs.
var placeholder = regexp.MustCompile(`(?i)^(<[^<>]+>|\[?(enter|insert|put|add)?[-_ ]?your[-_ ][a-z0-9_ -]+\]?|` +
	`[a-z0-9_ -]+[-_ ](goes[-_ ])?here|(replace|change)[-_ ]?(me|this)|replace[-_ ]with[-_ ].+|` +
	`[a-z_-]{0,12}(x{4,}|\.{3,}|\*{3,}|…))$`)

// pathPlaceholder matches a path of a README.
var pathPlaceholder = regexp.MustCompile(`(?i)[/\\](absolute[/\\])?path[/\\]to[/\\]|` +
	`[/\\](<[^<>]+>|your[-_ ]?(user)?name|username)([/\\]|$)`)

// maskDefaults removes from the references in value the defaults that are secrets.
func (m *masker) maskDefaults(s *Server, where, name, value string) string {
	return reference.ReplaceAllStringFunc(value, func(ref string) string {
		variable, text, _ := strings.Cut(strings.Trim(ref, "${}"), ":-")
		if text == "" || !isSecret(name, text) && !isSecret(variable, text) && !looksSecret(text) {
			return ref
		}
		if !slices.Contains(s.Variables, variable) {
			s.Variables = append(s.Variables, variable)
			m.note(s.Name, "%s has a secret as the default of %s: set %s to it before the host starts", where, variable,
				variable)
		}
		return "${" + variable + "}"
	})
}

// replace returns a reference in place of a secret.
func (m *masker) replace(s *Server, where, name, value string) string {
	if m.plain {
		return value
	}
	name = cmp.Or(name, "SECRET")
	if _, err := secrets.Value([]byte(value)); err == nil && m.store != nil && storable(where) &&
		!reference.MatchString(value) {
		return m.keep(s, where, name, value)
	}
	return m.variable(s, where, name, value, "a secret: set %s to it")
}

// variable returns a reference to a variable in place of a value. what says what the value is, and that the user has to
// set the variable.
func (m *masker) variable(s *Server, where, name, value, what string) string {
	variable := name
	if where != "env."+name {
		variable = prefix(s.Name) + name
	}
	for n := 2; m.variables[variable] != "" && m.variables[variable] != value; n++ {
		if variable = prefix(s.Name) + name; n > 2 {
			variable += fmt.Sprint("_", n-1)
		}
	}
	m.variables[variable] = value
	if !slices.Contains(s.Variables, variable) {
		s.Variables = append(s.Variables, variable)
		m.note(s.Name, "%s is "+what+" before the host starts", where, variable)
	}
	return "${" + variable + "}"
}

// storable reports whether a field may refer to a stored secret. Command lines can be read by other users, and in
// a URL's path the end of a reference would be ambiguous.
func storable(where string) bool {
	return strings.HasPrefix(where, "env.") || strings.HasPrefix(where, "headers.") || where == "oauth.client_secret"
}

// keep stores a secret and returns a reference to it.
func (m *masker) keep(s *Server, where, name, value string) string {
	if where != "env."+name {
		name = prefix(s.Name) + name
	}
	free := m.free(name, value, m.store)
	if _, known := s.Secrets[free]; !known {
		s.keep(free, value)
		m.note(s.Name, "%s is a secret: it is stored as %s, and the manifest refers to it", where, free)
	}
	return secrets.Scheme + free
}

// free returns a name under which to store a secret: one that no other secret in the file has and allows accepts.
func (m *masker) free(name, value string, allows func(name, value string) bool) string {
	free := secretName(name)
	for n := 2; m.stored[free] != "" && m.stored[free] != value || !allows(free, value); n++ {
		free = fmt.Sprint(secretName(name), "_", n)
	}
	m.stored[free] = value
	return free
}

func (s *Server) keep(name, value string) {
	if s.Secrets == nil {
		s.Secrets = make(map[string]string)
	}
	s.Secrets[name] = value
}

// secretName converts a name to a valid secret name.
func secretName(name string) string {
	name = strings.ToLower(variableName(name))
	return cmp.Or(strings.Trim(name[:min(len(name), 100)], "_"), "secret")
}

// prefix returns the prefix for a server's variables, which must not start with a digit.
func prefix(server string) string {
	name := variableName(server)
	if name == "" || name[0] <= '9' {
		name = strings.Trim("MCP_"+name, "_")
	}
	return name + "_"
}

// maskURL masks a URL's credentials, secret parameters, and path elements that look like secrets. It does not
// decode these parts, so the variables contain them in escaped form.
func (m *masker) maskURL(s *Server, where, value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		return value
	}
	rest, fragment, hasFragment := strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, path, hasPath := strings.Cut(rest, "/")
	value = scheme + "://" + m.maskAuthority(s, where, scheme, authority)
	if hasPath {
		parts := strings.Split(path, "/")
		for i, part := range parts {
			parts[i] = m.maskValue(s, where, "", part)
		}
		value += "/" + strings.Join(parts, "/")
	}
	if hasQuery {
		value += "?" + m.maskParameters(s, where, query)
	}
	if hasFragment {
		value += "#" + m.maskParameters(s, where, fragment)
	}
	return value
}

// maskAuthority masks a password, and for HTTP also a user without a password: that user is a token.
func (m *masker) maskAuthority(s *Server, where, scheme, authority string) string {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority
	}
	user, password, has := strings.Cut(authority[:at], ":")
	if strings.Contains(user, "${") { // a default contains a colon
		return authority
	}
	switch {
	case has && password != "":
		return m.maskValue(s, where, "", user) + ":" + m.maskValue(s, where, "PASSWORD", password) + authority[at:]
	case strings.HasPrefix(strings.ToLower(scheme), "http"):
		return m.maskValue(s, where, "TOKEN", user) + authority[len(user):]
	}
	return authority
}

func (m *masker) maskParameters(s *Server, where, query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, secret, ok := strings.Cut(pair, "="); ok {
			pairs[i] = name + "=" + m.maskValue(s, where, variableName(name), secret)
		}
	}
	return strings.Join(pairs, "&")
}

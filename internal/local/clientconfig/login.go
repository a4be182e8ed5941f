package clientconfig

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/manifest"
)

// ofMetadata says what takes the place of the addresses of an authorization server.
const ofMetadata = "the server's own metadata say where to sign in"

// loginCounterparts says what takes the place of fields of a login that are not imported.
var loginCounterparts = map[string]string{
	"authorizationUrl":      ofMetadata,
	"tokenUrl":              ofMetadata,
	"registrationUrl":       ofMetadata,
	"authServerMetadataUrl": ofMetadata,
	"issuer":                ofMetadata,
	"audiences":             ofMetadata,
	"tokenParamName":        "tokens are in the header Authorization alone",
}

// login reads the OAuth client settings: the table oauth of Claude Code, Codex, Gemini and opencode, or the table
// auth of Cursor.
func (r *reader) login(s *Server, f *fields) {
	o := &manifest.OAuthClient{Scopes: f.list("scopes")}
	if f.take("oauth_resource") != nil {
		r.note(s.Name, "oauth_resource is left out; the server's own metadata name its resource")
	}
	if kind := f.text("authProviderType"); kind != "" && kind != "dynamic_discovery" {
		r.note(s.Name, "authProviderType %s has no counterpart here; exthost secret login signs in with OAuth, or "+
			"state a header", kind)
	}
	for _, key := range []string{"oauth", "auth"} {
		stated := f.take(key)
		if stated == nil || stated == false {
			continue
		}
		if table(stated) == nil {
			f.mistake("%s is no table", key)
			continue
		}
		r.client(s, o, key, &fields{set: table(stated)}, f)
	}
	if o.ClientID == "" && o.ClientSecret == "" && o.Scopes == nil && o.CallbackPort == 0 {
		return
	}
	if s.Kind == manifest.KindStdio {
		r.note(s.Name, "its login is left out: a process of this machine signs in by itself")
		return
	}
	for _, p := range o.Validate() {
		f.mistake("%s: %s", p.Field, p.Message)
	}
	s.OAuth = o
}

// client reads f, the table under key, into o. It reports mistakes in the login on server.
func (r *reader) client(s *Server, o *manifest.OAuthClient, key string, f, server *fields) {
	o.ClientID = cmp.Or(f.text("clientId", "client_id", "CLIENT_ID"), o.ClientID)
	o.ClientSecret = cmp.Or(f.text("clientSecret", "client_secret", "CLIENT_SECRET"), o.ClientSecret)
	if _, isText := f.set["scopes"].(string); isText {
		o.Scopes = strings.Fields(f.text("scopes"))
	}
	o.Scopes = slices.Concat(o.Scopes, f.list("scopes"), strings.Fields(f.text("scope")))
	if enabled, stated := f.flag("enabled"); stated && !enabled {
		r.note(s.Name, "its login is switched off there; here exthost secret login signs in, if the server wants that")
	}
	redirect := f.text("redirectUri", "redirect_uri")
	if u, err := url.Parse(redirect); err == nil && u.Port() != "" {
		o.CallbackPort, _ = strconv.Atoi(u.Port())
		r.note(s.Name, "its login ends at http://127.0.0.1:%d/callback here, and not at %s: allow that where the "+
			"client was created", o.CallbackPort, redirect)
	}
	for _, name := range []string{"callbackPort", "callback_port"} {
		if text, ok := scalar(f.take(name)); ok {
			port, err := strconv.Atoi(text)
			if err != nil {
				server.mistake("%s.%s is no port", key, name)
			}
			o.CallbackPort = port
		}
	}
	for name := range inOrder(f.set) {
		r.note(s.Name, "%s", leftOut(key+"."+name, loginCounterparts[name]))
	}
	if f.wrong != "" {
		server.mistake("%s.%s", key, f.wrong)
	}
}

// ownVariables removes the variables from an extension's login, because a manifest allows none there.
func (r *reader) ownVariables(s *Server) {
	o := s.OAuth
	switch {
	case o == nil || r.Bridge:
	case reference.MatchString(o.ClientID), reference.MatchString(o.ClientSecret) && r.Store == nil:
		r.note(s.Name, "its login is left out: it has variables, and [transport.oauth] takes none; write their "+
			"values there, and the secret with exthost secret set")
		s.OAuth = nil
	case reference.MatchString(o.ClientSecret):
		name := r.masker.free(prefix(s.Name)+"CLIENT_SECRET", "variable "+o.ClientSecret,
			func(string, string) bool { return true }) // the user will store the variable's value
		s.keep(name, "")
		r.note(s.Name, "oauth.client_secret is the variable %s there; here it is stored once: exthost secret set %s",
			o.ClientSecret, name)
		o.ClientSecret = secrets.Scheme + name
	}
}

// input is a value that an editor asks its user for.
type input struct {
	about, value string // question and default answer
	secret       bool
}

// inputsOf reads VS Code's inputs.
func inputsOf(root map[string]any) map[string]input {
	all := make(map[string]input)
	list, _ := root["inputs"].([]any)
	for _, v := range list {
		in := table(v)
		id, _ := in["id"].(string)
		about, _ := in["description"].(string)
		value, _ := scalar(in["default"])
		secret, _ := in["password"].(bool)
		if id != "" {
			all[id] = input{about, value, secret}
		}
	}
	return all
}

// asked returns the replacement for an input in a value of s. ok is false for an unknown input.
func (r *reader) asked(s *Server, where, id string) (text string, ok bool) {
	in, ok := r.inputs[id]
	if !ok {
		return "", false
	}
	about := ""
	if in.about != "" {
		about = " (" + in.about + ")"
	}
	switch {
	case in.value != "" && !in.secret && !strings.Contains(in.value, "${") && !secrets.Refers(in.value) &&
		!strings.Contains(in.value, "\x00"): // the editor does not treat it as a secret
		// the note does not quote the value, which may be a secret
		r.note(s.Name, "%s: the editor asks for %s%s; here it is the answer that is proposed there", where, id, about)
		return in.value, true
	case r.Store != nil && in.secret && storable(where):
		// the user will store the answer to the editor's question
		name := r.masker.free(id, "input "+id, func(string, string) bool { return true })
		if _, known := s.Secrets[name]; !known {
			s.keep(name, "")
			r.note(s.Name, "%s: the editor asks for %s%s; here it is stored once: exthost secret set %s", where, id,
				about, name)
		}
		return secrets.Scheme + name, true
	}
	variable := variableName(id)
	if !slices.Contains(s.Variables, variable) {
		s.Variables = append(s.Variables, variable)
		r.note(s.Name, "%s: the editor asks for %s%s; here set %s to it before the host starts", where, id, about,
			variable)
	}
	return "${" + variable + "}", true
}

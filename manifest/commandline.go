package manifest

// CommandLine returns the words that the transport runs, as the manifest states
// them: a URL alone, else Cmd, else Script or Command followed by Args. It is nil
// for a transport that states none of these.
func (t Transport) CommandLine() []string {
	switch {
	case t.URL != "":
		return []string{t.URL}
	case len(t.Cmd) > 0:
		return t.Cmd
	case t.Script != "":
		return append([]string{t.Script}, t.Args...)
	case t.Command != "":
		return append([]string{t.Command}, t.Args...)
	}
	return nil
}

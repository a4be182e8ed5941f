package status

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// Word is the short form of a [Verdict].
type Word string

// The words of a verdict.
const (
	Ready        Word = "READY"
	Degraded     Word = "DEGRADED"       // some calls fail, or something that is configured is not in force
	NoCallPasses Word = "NO CALL PASSES" // every call fails
)

// Verdict says in one sentence whether calls pass, why not, and what to do next.
type Verdict struct {
	Word   Word       `json:"word"`
	Text   string     `json:"text"`             // the sentence: the word, the worst cause and its next command
	Causes []Obstacle `json:"causes,omitempty"` // why the word is not READY, the worst first
}

// maxCause is the length of the longest cause in the sentence, in characters.
const maxCause = 300

// Judge returns the verdict about a host whose status is s at the time now. Every display of a verdict is made here.
func (s *Status) Judge(now time.Time) Verdict {
	v := Verdict{Word: Ready, Causes: s.causes(now)}
	if len(v.Causes) == 0 {
		v.Text = string(v.Word) + ": " + s.inventory() + s.slowest(now)
		return v
	}
	v.Word = Degraded
	worst := v.Causes[0]
	if slices.ContainsFunc(v.Causes, func(o Obstacle) bool { return o.All }) {
		v.Word = NoCallPasses
	}
	v.Text = string(v.Word) + ": " + oneLine(worst.Text)
	if more := len(v.Causes) - 1; more > 0 {
		v.Text += fmt.Sprintf(" (and %d more)", more)
	}
	if worst.Next != "" {
		v.Text += "; next: " + worst.Next
	}
	return v
}

// oneLine returns text in one line of at most [maxCause] characters.
func oneLine(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxCause {
		return string(runes[:maxCause-1]) + "…"
	}
	return string(runes)
}

// inventory counts what can be called.
func (s *Status) inventory() string {
	count := func(n int, noun string) string {
		if n == 1 {
			return "1 " + noun
		}
		return fmt.Sprintf("%d %ss", n, noun)
	}
	run, tools := 0, 0
	for _, x := range s.Extensions {
		if x.State != StateDisabled {
			run, tools = run+1, tools+len(x.Tools)
		}
	}
	text := count(run, "extension") + " with " + count(tools, "tool")
	switch d := len(s.Destinations); {
	case run == 0 && d > 0:
		return count(d, "destination")
	case run == 0 && len(s.Extensions) > 0:
		return "every extension is disabled; next: exthost enable " + s.Extensions[0].ID
	case run == 0:
		return "no extension was found; next: exthost init NAME"
	case d > 0:
		text += ", " + count(d, "destination")
	}
	return text
}

// slowest names the tool call that an instance has had for longest, if it takes long, as the end of a sentence. That is
// no cause: the tool may need the time.
func (s *Status) slowest(now time.Time) string {
	var owner string
	var slowest *OpenCall
	note := func(x *Extension) {
		if len(x.Slow) > 0 && (slowest == nil || x.Slow[0].Since.Before(slowest.Since)) {
			owner, slowest = x.ID, &x.Slow[0]
		}
	}
	for i := range s.Extensions {
		note(&s.Extensions[i])
	}
	for i := range s.Destinations {
		note(&s.Destinations[i].Extension)
	}
	if slowest == nil {
		return ""
	}
	return fmt.Sprintf("; a call of %s has been in flight for %v; next: exthost logs %s", slowest.Tool,
		now.Sub(slowest.Since).Truncate(time.Second), owner)
}

// causes returns everything that keeps the verdict from [Ready], the worst first: at most one cause for each extension,
// destination, policy or other part of the host.
func (s *Status) causes(now time.Time) (list []Obstacle) {
	add := func(o ...Obstacle) {
		for _, o := range o {
			if !slices.ContainsFunc(list, func(known Obstacle) bool { return known.ID == o.ID && o.ID != "" }) {
				list = append(list, o)
			}
		}
	}
	for _, p := range s.Policies {
		add(p.cause(s, now)...)
	}
	add(s.workers(now)...)
	for _, o := range s.Obstacles() {
		o.Next = cmp.Or(o.Next, "exthost status --ready --wait 30s")
		add(o)
	}
	add(s.configured(now)...)
	for i := range list {
		list[i].settle()
	}
	rank := func(o Obstacle) int {
		leftOut := func(x Extension) bool { return x.ID == o.ID && x.LeftOut() }
		switch {
		case o.ID == openFiles, o.ID == fullDisk: // it explains the others
			return -1
		case o.All:
			return 0
		case slices.ContainsFunc(s.Extensions, leftOut): // it has never run
			return 2
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b Obstacle) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// settle makes Next one command that can be pasted. What else was said there is added to the text.
func (o *Obstacle) settle() {
	if !strings.HasPrefix(o.Next, "exthost ") {
		o.Text, o.Next = o.Text+"; "+o.Next, "exthost check"
		return
	}
	if i := strings.IndexAny(o.Next, ",;"); i >= 0 {
		o.Text, o.Next = o.Text+o.Next[i:], o.Next[:i]
	}
}

// cause returns why a policy that is in force does not decide; nil if it does.
func (p *Policy) cause(s *Status, now time.Time) []Obstacle {
	id := PolicyPrefix + p.Name
	if full := p.unwritable(s.Audit); full != nil {
		full.All = true
		return []Obstacle{*full}
	}
	if p.State == StateDisabled {
		return nil
	}
	list := p.obstacle()
	stands := p.Process != nil && p.State != string(supervisor.Spawning)
	if list == nil && p.Process != nil {
		list = p.undecided(s, now)
		stands = p.Process.FailedInRow >= inRow
	}
	for i := range list {
		list[i].Next = cmp.Or(list[i].Next, "exthost logs "+id)
		list[i].All = stands && p.Required && p.Mode == governance.ModeEnforce && !p.Selective
	}
	return list
}

// undecided returns why a policy whose process runs does not decide: it dies again and again, or does not answer.
func (p *Policy) undecided(s *Status, now time.Time) []Obstacle {
	about := "policy " + p.Name
	o := cmp.Or(p.Process.stopped(about, now, s), p.Process.failing(about, now))
	if o == nil {
		return nil
	}
	return []Obstacle{*o}
}

// unwritable returns why the policy that keeps the audit log cannot write it; nil if it can, and for any other policy.
// Waiting does not help: nobody but the operator makes room.
func (p *Policy) unwritable(log *Audit) *Obstacle {
	if log == nil || log.Reason == "" || p.Category != governance.Audit || p.Process != nil ||
		p.State != string(supervisor.Restarting) {
		return nil
	}
	why, _, _ := strings.Cut(log.Reason, "; ")
	why, _, _ = strings.Cut(why, "\n") // the first of several errors
	return &Obstacle{
		ID:      PolicyPrefix + p.Name,
		Blocked: true,
		Text:    "the audit log cannot be written: " + why + "; make room or access for " + log.Path,
		Next:    "exthost check",
	}
}

// workers returns the causes in extensions and destinations. If none of them can be called, no call passes.
func (s *Status) workers(now time.Time) (list []Obstacle) {
	served, wanted := 0, 0
	each := func(what string, x *Extension, refuses string) {
		if x.State == StateDisabled {
			return
		}
		wanted++
		if x.serves() && refuses == "" {
			served++
		}
		if o := x.cause(what, now, s); o != nil {
			list = append(list, *o)
		} else if refuses != "" {
			list = append(list, Obstacle{
				ID:   x.ID,
				Text: what + " " + x.ID + " refuses connections: " + refuses,
				Next: "exthost logs " + x.ID,
			})
		}
	}
	for i := range s.Extensions {
		each("extension", &s.Extensions[i], "")
	}
	for i := range s.Destinations {
		each("destination", &s.Destinations[i].Extension, s.Destinations[i].Refuses)
	}
	for i := range list {
		list[i].blame(s)
		list[i].All = wanted > 0 && served == 0 && !s.Starting
	}
	return list
}

// refusedSecret matches what programs say whose credentials a server has refused.
var refusedSecret = regexp.MustCompile(`(?i)\b(401|unauthori[sz]ed)\b`)

// AfterRefusal returns the command that replaces a stored secret of a program if what it said means that a server has
// refused the secret; "" if it does not, or without secrets.
func AfterRefusal(secrets []string, said string) string {
	if len(secrets) == 0 || !refusedSecret.MatchString(said) {
		return ""
	}
	return "exthost secret set " + secrets[0]
}

// blame names the secrets that a worker is given if its own words say that they are refused, unless the host knows
// more.
func (o *Obstacle) blame(s *Status) {
	if o.Next != "exthost logs "+o.ID {
		return
	}
	names := func(x *Extension) {
		if next := AfterRefusal(x.Secrets, o.Text); x.ID == o.ID && next != "" {
			o.Text, o.Next = o.Text+"; it is given the secret "+strings.Join(x.Secrets, " and "), next
		}
	}
	for i := range s.Extensions {
		names(&s.Extensions[i])
	}
	for i := range s.Destinations {
		names(&s.Destinations[i].Extension)
	}
}

// serves reports whether a call may reach an instance.
func (x *Extension) serves() bool {
	is := func(state string) bool {
		return state == string(supervisor.Ready) || state == string(supervisor.Idle) ||
			state == string(supervisor.Spawning)
	}
	if !is(x.State) {
		return false
	}
	return len(x.Instances) == 0 || slices.ContainsFunc(x.Instances, func(i Instance) bool {
		return is(i.State) && i.Breaker != string(supervisor.BreakerOpen)
	})
}

const (
	// inRow is the number of calls in a row after which their failure or denial is a cause.
	inRow = 3
	// crashing is the number of restarts after which further crashes are a loop.
	crashing = 2
	// recent is how long a crash counts for a loop: the time in which restarts are limited.
	recent = 5 * time.Minute
	// late is how long a single call that timed out is a cause, until one succeeds.
	late = time.Minute
)

// cause returns what keeps the calls of x from passing; nil if nothing does.
func (x *Extension) cause(what string, now time.Time, s *Status) *Obstacle {
	about := what + " " + x.ID
	if o := x.stopped(about, now, s); o != nil {
		return o
	}
	if x.down() { // a first start is an obstacle of the host, any other is for a call or a reload
		return nil
	}
	return cmp.Or(x.hindered(about), x.failing(about, now), x.denied(about))
}

// stopped returns why x does not run, or not for long.
func (x *Extension) stopped(about string, now time.Time, s *Status) *Obstacle {
	o := &Obstacle{ID: x.ID, Next: "exthost logs " + x.ID}
	loops := x.LastCrash != nil && x.LastCrash.Kind != protocol.Overloaded && x.RestartsInRow >= crashing &&
		now.Sub(x.LastCrash.Time) < recent
	switch {
	case x.Login != "":
		text, command, _ := strings.Cut(x.Login, ": exthost secret login")
		o.Blocked, o.Text, o.Next = true, about+" "+text, "exthost secret login"+cmp.Or(command, " "+x.ID)
	case loops:
		o.Blocked = x.State == string(supervisor.Failed)
		what := "keeps crashing"
		if slices.Contains([]string{manifest.KindHTTP, manifest.KindSSE, manifest.KindNATS}, x.Transport) {
			what = "keeps losing its server"
		}
		reason, next := splitNext(x.LastCrash.Reason, x.LastCrash.Next)
		o.Next = cmp.Or(next, o.Next)
		o.Text = fmt.Sprintf("%s %s, %d restarts so far: %s", about, what, x.RestartsInRow, reason)
		o.Text += lastWords(o.Text, x.LastCrash.Evidence)
	case x.State == string(supervisor.Spawning), x.State == string(supervisor.Draining):
		return nil
	case x.down():
		return x.downCause(about, s)
	default:
		return nil
	}
	return o
}

// hindered returns why an instance gets no calls although x runs, or may answer none: its breaker is not closed, it has
// failed, or it is suspected of a hang.
func (x *Extension) hindered(about string) *Obstacle {
	o := &Obstacle{ID: x.ID, Next: "exthost logs " + x.ID}
	for _, i := range x.Instances {
		switch {
		case i.Breaker != "" && i.Breaker != string(supervisor.BreakerClosed):
			o.Text = fmt.Sprintf("the breaker of %s is %s: %s", about, strings.ReplaceAll(i.Breaker, "_", " "),
				cmp.Or(i.Reason, reasonOf(x.LastFailure), "calls failed one after another"))
		case i.State == string(supervisor.Failed):
			o.Text = fmt.Sprintf("instance %s of %s is failed: %s", i.Key, about, i.Reason)
		case i.Doubt != "":
			o.Text, o.Next = about+" may hang: "+i.Doubt, "exthost restart "+x.ID
		default:
			continue
		}
		return o
	}
	return nil
}

// failing returns what became of the latest calls of x, unless they succeeded.
func (x *Extension) failing(about string, now time.Time) *Obstacle {
	o := &Obstacle{ID: x.ID, Next: "exthost logs " + x.ID}
	f := x.LastFailure
	if f == nil || x.FailedInRow == 0 {
		return nil
	}
	older := func(i Instance) bool { return !i.StartedAt.After(f.Time) }
	replaced := len(x.Instances) > 0 && !slices.ContainsFunc(x.Instances, older) // since that failure
	switch {
	case f.Kind == protocol.CallTimeout && !replaced && (x.FailedInRow >= inRow || now.Sub(f.Time) < late):
		o.Text = fmt.Sprintf("calls of %s time out, %d in a row: %s", about, x.FailedInRow, f.Reason)
		o.Next = "exthost restart " + x.ID
		if x.Transport == manifest.KindExec { // its process has ended
			o.Text += "; raise call_timeout under [runtime] if it is only slow"
			o.Next = "exthost logs " + x.ID
		}
	case IsCommand(f.Next) && !replaced: // no further call will succeed before
		o.Text, o.Next = fmt.Sprintf("calls of %s fail: %s", about, withoutNext(f.Reason, f.Next)), f.Next
	case x.FailedInRow >= inRow:
		o.Text = fmt.Sprintf("the last %d calls of %s failed: %s", x.FailedInRow, about, f.Reason)
	default:
		return nil
	}
	return o
}

// denied returns why governance refuses the latest calls of x, or holds back tools of it.
func (x *Extension) denied(about string) *Obstacle {
	o := &Obstacle{ID: x.ID, Next: "exthost logs " + x.ID}
	switch d := x.LastDenial; {
	case d != nil && x.DeniedInRow >= inRow:
		o.Text = fmt.Sprintf("the last %d calls of %s were denied: %s", x.DeniedInRow, about,
			withoutNext(d.Reason, d.Next))
		switch o.Next = "exthost calls --failed"; {
		case IsCommand(d.Next):
			o.Next = d.Next
		case d.Decision != "":
			o.Next = "exthost calls " + d.Decision
		}
	case len(x.Withheld) > 0:
		o.Text = fmt.Sprintf("%s changed tools that are held back: %s", about, strings.Join(x.Withheld, ", "))
		o.Next = "exthost status " + x.ID
	default:
		return nil
	}
	return o
}

// withoutNext cuts off the end of a reason that names the step next, which may have been cut itself.
func withoutNext(reason, next string) string {
	if i := strings.LastIndex(reason, "; "); i >= 0 && IsCommand(next) && strings.Contains(reason[i:], "exthost ") {
		return reason[:i]
	}
	return reason
}

func reasonOf(f *Failure) string {
	if f == nil {
		return ""
	}
	return f.Reason
}

// down reports whether no instance of x can be called.
func (x *Extension) down() bool {
	return x.State != string(supervisor.Ready) && x.State != string(supervisor.Idle)
}

// downCause returns why x is down, with the remedy that a diagnostic names, else with that of its state.
func (x *Extension) downCause(about string, s *Status) *Obstacle {
	list := obstacle(about, x.ID, x.State, x.Reason, x.next())
	if len(list) == 0 {
		return nil
	}
	o := list[0]
	if len(x.Instances) > 0 {
		o.Text += lastWords(o.Text, x.Instances[0].Evidence)
	}
	if x.LeftOut() && !IsCommand(x.next()) {
		for _, d := range s.Diagnostics {
			if d.Extension == x.ID && d.Hint != "" && d.Level != protocol.LevelInfo {
				o.Next = d.Hint
				break
			}
		}
	}
	switch {
	case x.Transport == TransportCluster:
		o.Next = "exthost cluster nodes"
	case o.Next == "":
		o.Next = "exthost logs " + x.ID
	}
	return &o
}

// The ids of causes that explain others: the host can hardly open another file, or write one.
const (
	openFiles = "open files"
	fullDisk  = "full disk"
)

// limits returns what keeps the host's process from opening and writing files.
func (s *Status) limits() (list []Obstacle) {
	h := s.Host
	if h == nil {
		return nil
	}
	if s.FewFiles() {
		list = append(list, Obstacle{
			ID: openFiles,
			Text: fmt.Sprintf("the host has %d of at most %d files and connections open, too few are left to start an "+
				"extension: raise the hard limit (ulimit -Hn, or LimitNOFILE of systemd) and start the host again",
				h.OpenFiles, h.MaxFiles),
			Next: "exthost check",
		})
	}
	var full []string
	for _, p := range h.Full {
		full = append(full, p.String())
	}
	if full != nil {
		list = append(list, Obstacle{
			ID:   fullDisk,
			Text: "a disk is full, make room: " + strings.Join(full, ", "),
			Next: "exthost check",
		})
	}
	return list
}

// configured returns the causes in files, rules, the server, the cluster and the process of the host.
func (s *Status) configured(now time.Time) (list []Obstacle) {
	list = append(s.limits(), s.broken()...)
	for _, p := range s.Policies {
		for _, d := range p.Diagnostics {
			d.Extension = "" // the text names the policy
			list = append(list, Obstacle{
				ID:   PolicyPrefix + p.Name,
				Text: "policy " + p.Name + " has a rule without effect: " + d.String(),
				Next: "exthost policy list",
			})
		}
	}
	if s.Server != nil {
		if last := s.Server.RejectedTokens.Last; last != nil && last.Client != "" && now.Sub(last.Time) < attention {
			list = append(list, Obstacle{
				ID:   "client " + last.Client,
				Text: "client " + last.Client + " is refused: " + last.Reason,
				Next: "exthost client rotate " + last.Client,
			})
		}
	}
	if len(s.Restart) > 0 {
		list = append(list, Obstacle{
			ID: "configuration",
			Text: "the configuration has changed, and is not in force in " + strings.Join(s.Restart, ", ") +
				" until the host is started again",
			Next: "exthost stop",
		})
	}
	if c := s.Cluster; c != nil && c.Server == "" {
		list = append(list, Obstacle{
			ID:   "cluster",
			Text: "the host is not connected to cluster " + c.Name + ": " + c.Reason,
			Next: "exthost cluster check",
		})
	}
	return list
}

// broken returns the errors of files, one for each file or part of the host.
func (s *Status) broken() (list []Obstacle) {
	for _, d := range s.Diagnostics {
		kept, runs := s.keeps(d)
		if d.Code == string(protocol.Untrusted) && kept && IsCommand(d.Hint) {
			text := "extension " + d.Extension + " may not start: " + d.Message
			if runs {
				text = "extension " + d.Extension + " runs as it was before, because " + d.Message
			}
			list = append(list, Obstacle{ID: d.Extension, Text: text, Next: d.Hint})
		}
		if d.Level != protocol.LevelError {
			continue
		}
		of := d
		of.Hint, of.Extension = "", "" // the text names them in other places
		o := Obstacle{ID: cmp.Or(d.Extension, d.Path, d.Code), Text: of.String(), Next: cmp.Or(d.Hint, "exthost check")}
		switch {
		case d.Code == string(protocol.ConfigInvalid) && d.Extension == "":
			o.ID, o.Next = "configuration", "exthost reload"
			if IsCommand(d.Hint) {
				d.Hint, o.Next = "", d.Hint
			}
			o.Text = "the configuration on disk cannot be used, and the one before it stays in force: " + d.String()
		case d.Code == string(protocol.ManifestInvalid):
			o.Text, o.Next = "a manifest is broken: "+d.String(), "exthost reload"
			if runs {
				o.Text = "a manifest is broken, and the build before it runs until that is mended: " + d.String()
			}
		case d.Extension != "":
			o.Text = d.Extension + ": " + o.Text
		}
		list = append(list, o)
	}
	return list
}

// keeps reports whether the extension whose manifest d is about is in force as it was before, and whether it runs so.
// One that has not started for a call does not run.
func (s *Status) keeps(d protocol.Diagnostic) (kept, runs bool) {
	for _, x := range s.Extensions {
		if x.serves() && (x.ID == d.Extension || x.Path == d.Path && d.Path != "") {
			kept = true
			runs = runs || x.State != string(supervisor.Idle)
		}
	}
	return kept, runs
}

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package browser_test tries the page of kubectl proviso playground in a real Chromium.
package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const repository = "../.."

// requireVariable makes a machine without Chromium a failure.
const requireVariable = "PROVISO_REQUIRE_CHROMIUM"

// chromium returns the path of the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const message = "there is no Chromium: install the package chromium, for example with apt-get install chromium"
	if os.Getenv(requireVariable) != "" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

// serve runs the command with arguments, and returns the address of its page.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	plugin := filepath.Join(t.TempDir(), "kubectl-proviso")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", plugin, "./cmd/kubectl-proviso")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(context.Background(), plugin, append([]string{"playground"}, args...)...) // ends in the cleanup
	cmd.Dir = repository
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("after Ctrl-C: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "The playground is at ")
	if err != nil || !ok {
		t.Fatalf("got %q, %v", line, err)
	}
	return address
}

// visit is a tab, with what it asks for and what it writes to its console.
type visit struct {
	context.Context

	address string

	mutex    sync.Mutex
	requests []string
	console  []string
}

// newBrowser starts a browser with empty data.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	data, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 50 { // processes of the browser may still write
			if os.RemoveAll(data) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(data), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser
		cancel()
	})
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// newVisit opens a tab.
func newVisit(browser context.Context, t *testing.T, address string) *visit {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	limited, cancel := context.WithTimeout(tab, 25*time.Second)
	t.Cleanup(cancel)
	v := &visit{Context: limited, address: address}
	chromedp.ListenTarget(tab, func(event any) {
		v.mutex.Lock()
		defer v.mutex.Unlock()
		switch event := event.(type) {
		case *network.EventRequestWillBeSent:
			v.requests = append(v.requests, event.Request.URL)
		case *runtime.EventConsoleAPICalled:
			v.console = append(v.console, fmt.Sprint(event.Type, event.Args))
		case *runtime.EventExceptionThrown:
			v.console = append(v.console, event.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			v.console = append(v.console, event.Entry.Text+" "+event.Entry.URL)
		}
	})
	v.run(t, network.Enable(), log.Enable(), runtime.Enable())
	t.Cleanup(func() { v.check(t) })
	return v
}

func (v *visit) run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(v.Context, actions...); err != nil {
		t.Fatal(err)
	}
}

// check checks that the tab wrote nothing to its console, asked for nothing of other hosts, and sent no link.
func (v *visit) check(t *testing.T) {
	t.Helper()
	v.mutex.Lock()
	defer v.mutex.Unlock()
	for _, text := range v.console {
		// The answer to mistakes is 422, which Chromium logs. For files without the secret it is 403.
		if !strings.Contains(text, "status of 422") && !strings.Contains(text, "status of 403") {
			t.Errorf("the console has %q", text)
		}
	}
	for _, request := range v.requests {
		if u, err := url.Parse(request); err != nil || "http://"+u.Host+"/" != v.address || u.RawQuery != "" {
			t.Errorf("the page asked for %q", request)
		}
	}
	if len(v.requests) < 5 {
		t.Errorf("only the requests %q were seen", v.requests)
	}
}

// await waits until an expression of JavaScript is true.
func (v *visit) await(t *testing.T, expression string) {
	t.Helper()
	if err := chromedp.Run(v.Context, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(10*time.Second))); err != nil {
		t.Fatalf("%s: %v; the page has\n%s", expression, err, v.text(t, "document.body.innerText"))
	}
}

func (v *visit) text(t *testing.T, expression string) (text string) {
	t.Helper()
	v.run(t, chromedp.Evaluate(expression, &text))
	return text
}

// isOverflowing finds texts that are wider than the page, or than what shows them and cannot scroll.
const isOverflowing = `document.documentElement.scrollWidth > innerWidth || [...document.querySelectorAll("body *")].some((e) => {
  const style = getComputedStyle(e);
  return style.display !== "inline" && style.overflowX !== "auto" && style.textOverflow !== "ellipsis" && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1 && !["TEXTAREA", "SELECT"].includes(e.tagName) && !e.closest(".gutter, .scroll, .manifest, .heard");
})`

// contrast returns the smallest contrast of a text and its ground.
const contrast = `(() => {
  const parse = (c) => c.match(/[\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
  let least = 21;
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.offsetParent === null || e.classList.contains("skip")) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color).slice(0, 3)), light(ground(e))];
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return String(least);
})()`

// inScheme shows the page in a size, in light or dark colours.
func inScheme(scheme string, width, height int64) chromedp.Action {
	return chromedp.Tasks{
		chromedp.EmulateViewport(width, height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	}
}

const (
	refused = `document.querySelector("#answer").textContent === "no"`
	allowed = `document.querySelector("#answer").textContent === "yes"`
	idle    = `document.querySelector("#result").getAttribute("aria-busy") === null`
)

// TestPlayground uses the page as a user does who learns about a refusal.
func TestPlayground(t *testing.T) {
	browserContext := newBrowser(t)
	address := serve(t)

	t.Run("an example, an edit, and what the page shows", func(t *testing.T) {
		v := newVisit(browserContext, t, address)
		v.run(t, chromedp.Navigate(address))
		v.await(t, refused) // the first example
		for _, want := range []struct{ selector, text string }{
			{"#near-miss", `set spec.storageClassName to "dev" (now "gold")`},
			{"#tree", "Allow policy alice-dev-volumes: its condition is false"},
			{"#tree", `object.spec.storageClassName = "gold"`},
			{"#conditions", `spec.storageClassName is dev and metadata.annotations["volume.beta.kubernetes.io/storage-class"] is not set`},
			{"#barriers", "only a Deny policy has a barrier"},
			{"#at-authorization", "yes, if"},
			{"#with-object", "no"},
			{"#status", "The answer is no. Near miss: set spec.storageClassName"},
		} {
			if got := v.text(t, fmt.Sprintf("document.querySelector(%q).innerText", want.selector)); !strings.Contains(got, want.text) {
				t.Errorf("%s: got %q, want %q", want.selector, got, want.text)
			}
		}
		// The near miss passes when a user types it. The page decides without a button.
		v.run(t, chromedp.Evaluate(`(() => { const a = document.querySelector("#object"); a.focus(); const at = a.value.indexOf("gold"); a.setSelectionRange(at, at + 4); })()`, nil), chromedp.KeyEvent("dev"))
		v.await(t, allowed)
		// An example with a Deny policy has a barrier.
		choose := `(() => { const s = document.querySelector("#example"); s.value = [...s.options].find((o) => o.textContent === "A Deployment without labels").value; s.dispatchEvent(new Event("change")); })()`
		v.run(t, chromedp.Evaluate(choose, nil))
		v.await(t, refused)
		v.run(t, chromedp.Click("#barriers summary", chromedp.ByQuery))
		if got := v.text(t, `document.querySelector("#barriers pre").innerText`); !strings.Contains(got, "kind: ValidatingAdmissionPolicyBinding") {
			t.Errorf("got the barrier %q", got)
		}
		// A mistake has its line, and a button that goes there.
		v.run(t, chromedp.Evaluate(`(() => { const a = document.querySelector("#policies"); a.focus(); const at = a.value.indexOf("effect: Deny"); a.setSelectionRange(at, at + 6); })()`, nil), chromedp.KeyEvent("efect"))
		v.await(t, `document.querySelector("#policies-mistakes")?.innerText.includes('unknown field "spec.efect"')`)
		v.run(t, chromedp.Click("#policies-mistakes button", chromedp.ByQuery))
		if got := v.text(t, `(() => { const a = document.querySelector("#policies"); return a.value.slice(a.selectionStart, a.selectionEnd) + document.querySelector("#policies").getAttribute("aria-invalid"); })()`); got != "  efect: Denytrue" {
			t.Errorf("the mistake goes to %q", got)
		}
	})

	t.Run("the keyboard alone, and the link in a new tab", func(t *testing.T) {
		v := newVisit(browserContext, t, address)
		v.run(t, browser.GrantPermissions([]browser.PermissionType{browser.PermissionTypeClipboardSanitizedWrite, browser.PermissionTypeClipboardReadWrite}), chromedp.Navigate(address))
		v.await(t, refused)
		focused := func() string { return v.text(t, `document.activeElement.id || document.activeElement.className`) }
		var order []string
		v.run(t, chromedp.Evaluate(`document.activeElement.blur()`, nil))
		for range 8 {
			v.run(t, chromedp.KeyEvent(kb.Tab))
			order = append(order, focused())
			if visible := v.text(t, `(() => { const e = document.activeElement; const box = e.closest(".text") ?? e; const s = getComputedStyle(box); return String(s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 || s.boxShadow !== "none"); })()`); visible != "true" {
				t.Errorf("the focus on %s is not visible", focused())
			}
		}
		if want := []string{"skip", "example", "link", "decide", "policies", "request", "rbac", "object"}; !slices.Equal(order, want) {
			t.Errorf("Tab goes to %q, want %q", order, want)
		}
		// Everything is replaced in the object's editor, and decided with Control and Enter.
		const text = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: ü}\nspec: {storageClassName: dev}\n"
		v.run(t, chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(strings.ReplaceAll(text, "\n", kb.Enter)), chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(2)))
		v.await(t, allowed+" && "+idle)
		v.run(t, chromedp.Evaluate(`document.querySelector("#link").focus()`, nil), chromedp.KeyEvent(kb.Enter))
		v.await(t, `document.querySelector("#status").textContent.startsWith("The link is ")`)
		link := v.text(t, "location.href")
		if !strings.HasPrefix(link, address+"#v1.") || strings.Contains(link, "dev") {
			t.Fatalf("got the link %q", link)
		}
		// The example is chosen with arrow keys.
		v.run(t, chromedp.Evaluate(`document.querySelector("#example").focus()`, nil), chromedp.KeyEvent(kb.ArrowDown))
		v.await(t, `document.querySelector("#example").value !== "" && !document.querySelector("#object").value.includes("ü") && `+idle)

		other := newVisit(browserContext, t, address)
		other.run(t, chromedp.Navigate(link))
		other.await(t, allowed)
		if got := other.text(t, `document.querySelector("#object").value`); got != text {
			t.Errorf("the link has %q", got)
		}
		other.run(t, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"#v1.damaged"))
		other.await(t, `document.querySelector("#mistakes").innerText.includes("the link is damaged")`)
	})

	t.Run("nothing allows the request", func(t *testing.T) {
		v := newVisit(browserContext, t, address)
		v.run(t, chromedp.Navigate(address))
		v.await(t, refused)
		v.run(t, chromedp.Evaluate(`(() => { const s = document.querySelector("#example"); s.value = [...s.options].find((o) => o.textContent === "An object without the label is deleted").value; s.dispatchEvent(new Event("change")); })()`, nil))
		v.await(t, allowed)
		v.run(t, chromedp.Click("#rbac", chromedp.ByQuery))
		v.await(t, refused+` && document.querySelector("#near-miss").innerText.startsWith("Nothing allows the request")`)
		if got := v.text(t, `document.querySelector("#no-conditions").innerText`); got != "The answer at authorization is no, whatever the object is." {
			t.Errorf("got %q", got)
		}
	})

	t.Run("the verdict stays in view", func(t *testing.T) {
		v := newVisit(browserContext, t, address)
		v.run(t, chromedp.Navigate(address))
		v.await(t, refused)
		for _, size := range [][2]int64{{400, 800}, {1280, 700}} {
			v.run(t, inScheme("light", size[0], size[1]))
			v.await(t, fmt.Sprintf("innerWidth === %d", size[0]))
			for _, place := range []string{"#policies", "#object", "#near-miss", "#barriers"} {
				v.run(t, chromedp.Evaluate(fmt.Sprintf(`document.querySelector(%q).scrollIntoView()`, place), nil))
				if got := v.text(t, fmt.Sprintf(`(() => {
					const verdict = document.querySelector("#answer").getBoundingClientRect(), box = document.querySelector("#verdict").getBoundingClientRect(), shown = document.querySelector(%q).getBoundingClientRect();
					if (verdict.top < 0 || verdict.bottom > innerHeight) return "the verdict is at " + verdict.top;
					if (innerWidth < 1000 && shown.top < box.bottom - 1 && shown.left < box.right) return "the verdict hides what is at " + shown.top;
					return box.height > innerHeight / 4 ? "the verdict takes " + box.height : "";
				})()`, place)); got != "" {
					t.Errorf("%dx%d, %s: %s", size[0], size[1], place, got)
				}
			}
		}
	})

	t.Run("files of the user", func(t *testing.T) {
		withFiles := serve(t, "-f", "artifacts/demo/policy-claims.yaml", "-f", "artifacts/demo/claim-gold.yaml")
		base, fragment, ok := strings.Cut(withFiles, "#")
		if !ok {
			t.Fatalf("got the address %q", withFiles)
		}
		v := newVisit(browserContext, t, base)
		v.run(t, chromedp.Navigate(withFiles))
		v.await(t, refused+` && document.querySelector("#near-miss").innerText.includes("storageClassName")`)
		if got := v.text(t, `document.querySelector("#example").selectedOptions[0].parentElement.label`); !strings.HasPrefix(got, "Your files: artifacts/demo/policy-claims.yaml") {
			t.Errorf("got the files %q", got)
		}
		// What is in the editors stays out of the address, and so out of the history, until the user copies the link. A reload shows the files again.
		v.run(t, chromedp.Evaluate(`document.querySelector("#rbac").click()`, nil))
		v.await(t, allowed+" && "+idle)
		if link := v.text(t, "location.href"); link != base+"#"+fragment {
			t.Errorf("the address of the page is %q", link)
		}
		v.run(t, chromedp.Reload())
		v.await(t, refused+` && document.querySelector("#example").selectedOptions[0].parentElement.label.startsWith("Your files: ")`)
		v.run(t, chromedp.Click("#link", chromedp.ByQuery))
		v.await(t, `location.hash.startsWith("#v1.")`)
		wrong := newVisit(browserContext, t, base)
		wrong.run(t, chromedp.Navigate(base+"#files.AAAA"))
		wrong.await(t, `document.querySelector("#mistakes").innerText.includes("open the address that the command has printed")`)
	})

	t.Run("colours and sizes", func(t *testing.T) {
		v := newVisit(browserContext, t, address)
		v.run(t, chromedp.Navigate(address))
		v.await(t, refused)
		grounds := map[string]bool{}
		for _, look := range []struct {
			scheme        string
			width, height int64
		}{{"light", 1280, 1500}, {"light", 1100, 720}, {"dark", 1280, 1500}, {"light", 360, 3000}, {"dark", 360, 3000}, {"light", 400, 800}} {
			name := fmt.Sprintf("%s-%d", look.scheme, look.width)
			v.run(t, inScheme(look.scheme, look.width, look.height))
			v.await(t, fmt.Sprintf("innerWidth === %d", look.width))
			grounds[v.text(t, `getComputedStyle(document.body).backgroundColor`)] = true
			var overflows bool
			var least string
			v.run(t, chromedp.Evaluate(isOverflowing, &overflows), chromedp.Evaluate(contrast, &least))
			if overflows {
				t.Errorf("%s: a text overflows", name)
			}
			if value := 0.0; sscan(least, &value) != nil || value < 4.5 {
				t.Errorf("%s: the smallest contrast is %s", name, least)
			}
			v.shoot(t, name)
		}
		if len(grounds) != 2 {
			t.Errorf("got the grounds %v", grounds)
		}
	})
}

func sscan(text string, value *float64) error {
	_, err := fmt.Sscan(text, value)
	return err
}

// shoot writes a picture of the page into the directory that an environment variable names.
func (v *visit) shoot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("PROVISO_PICTURES")
	if dir == "" {
		return
	}
	var picture []byte
	v.run(t, chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

//go:build site

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package browser_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// repositoryLink is the address of a file of the repository.
const repositoryLink = "https://github.com/proviso-authz/proviso/blob/HEAD/"

// page is what the browser finds in a page of the site.
type page struct {
	Title   string   // its first heading
	Anchors []string // the targets of fragments
	Links   []string // absolute, of the whole page
	Sidebar []string // of the navigation
	ReadOn  []string // below this heading
	Broken  []string // pictures without a size
}

const readPage = `(() => {
  const links = (nodes) => [...nodes].map((a) => a.href);
  const main = [...document.querySelectorAll("main .content > *")];
  const after = main.slice(main.findIndex((e) => e.querySelector("#read-on")) + 1);
  return {
    title: document.querySelector("main h1")?.innerText ?? "",
    anchors: [...document.querySelectorAll("[id]")].map((e) => e.id),
    links: links(document.querySelectorAll("a[href]")),
    sidebar: links(document.querySelectorAll("aside ul:nth-of-type(2) a")),
    readOn: links(after.flatMap((e) => [...e.querySelectorAll("a")])),
    broken: [...document.images].filter((i) => !i.naturalWidth).map((i) => i.src),
  };
})()`

// TestSite reads each page of the site that make site has written, in both colour schemes and on a narrow screen, follows its links, and searches. It has
// a build tag of its own, because make test does not build the site.
func TestSite(t *testing.T) {
	const site = "../../_output/site"
	browserContext := newBrowser(t)
	server := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(server.Close)
	documents := readDocuments(t)

	pages := map[string]page{} // by path
	err := filepath.WalkDir(site, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "index.html" {
			return err
		}
		address := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), filepath.Clean(site))) + "/"
		t.Run(address, func(t *testing.T) {
			v := newVisit(browserContext, t, server.URL+"/")
			var p page
			grounds := map[string]bool{}
			for _, scheme := range []string{"light", "dark"} {
				v.run(t, inScheme(scheme, 1280, 900), chromedp.Navigate(server.URL+address))
				if least, value := v.text(t, contrast), 0.0; sscan(least, &value) != nil || value < 4.5 {
					t.Errorf("%s: the smallest contrast is %s", scheme, least)
				}
				grounds[v.text(t, `getComputedStyle(document.body).backgroundColor`)] = true
				v.shoot(t, scheme+strings.ReplaceAll(address, "/", "-"))
			}
			if len(grounds) != 2 {
				t.Errorf("got the grounds %v", grounds)
			}
			v.run(t, chromedp.Evaluate(readPage, &p), inScheme("light", 400, 800))
			v.await(t, "innerWidth === 400")
			v.shoot(t, "narrow"+strings.ReplaceAll(address, "/", "-"))
			if width := v.text(t, "String(document.documentElement.scrollWidth)"); width != "400" {
				t.Errorf("on a screen of 400 px the page has %s px", width)
			}
			if len(p.Broken) > 0 {
				t.Errorf("the pictures %q are missing", p.Broken)
			}
			pages[address] = p
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	titles := map[string]string{} // to paths
	for path, p := range pages {
		titles[p.Title] = path
	}
	for title := range documents {
		if titles[title] == "" {
			t.Errorf("the document %q has no page", title)
		}
	}
	for path, p := range pages {
		for _, link := range p.Links {
			if mistake := broken(pages, server.URL, link); mistake != "" {
				t.Errorf("%s links to %s: %s", path, link, mistake)
			}
		}
	}

	var readOn []string
	for _, link := range pages["/"].ReadOn {
		if strings.HasPrefix(link, server.URL) && !slices.Contains(readOn, link) {
			readOn = append(readOn, link)
		}
	}
	navigation := slices.DeleteFunc(slices.Clone(pages["/"].Sidebar), func(link string) bool { return !slices.Contains(readOn, link) })
	if len(readOn) < 20 || !slices.Equal(navigation, readOn) {
		t.Errorf("the navigation has the order %q, want that in README.md, %q", navigation, readOn)
	}

	for _, title := range []string{"Proviso", "Barriers", "40. Barriers are exact, or there is none"} {
		word := onlyIn(t, documents, title)
		t.Run("search "+word, func(t *testing.T) {
			v := newVisit(browserContext, t, server.URL+"/")
			v.run(t, inScheme("light", 1280, 900), chromedp.Navigate(server.URL+"/glossary/"), chromedp.Focus(".nav-container .search-input", chromedp.ByQuery))
			v.await(t, "window.sectionIndex !== undefined")
			v.run(t, chromedp.SendKeys(".nav-container .search-input", word, chromedp.ByQuery))
			v.await(t, `document.querySelector(".nav-container .search-results a") !== null`)
			var found []string
			v.run(t, chromedp.Evaluate(`[...new Set([...document.querySelectorAll(".nav-container .search-results a")].map((a) => a.pathname))]`, &found))
			if !slices.Equal(found, []string{titles[title]}) {
				t.Errorf("search finds %q, want the page %q", found, titles[title])
			}
			v.shoot(t, "search-"+word)
		})
	}
}

// broken returns why a link of the site leads nowhere. Links to other sites are not followed.
func broken(pages map[string]page, server, link string) string {
	if file, ok := strings.CutPrefix(link, repositoryLink); ok {
		if _, err := os.Stat(filepath.Join(repository, file)); err != nil {
			return "the repository has no such file"
		}
		return ""
	}
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if !strings.HasPrefix(link, server+"/") {
		return ""
	}
	p, ok := pages[u.Path]
	if !ok {
		return "there is no such page"
	}
	if u.Fragment != "" && !slices.Contains(p.Anchors, u.Fragment) {
		return "the page has no such anchor"
	}
	return ""
}

// readDocuments returns the documents by their titles.
func readDocuments(t *testing.T) map[string]string {
	t.Helper()
	documents := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no documents: %v", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			title, text, _ := strings.Cut(string(content), "\n")
			documents[strings.TrimPrefix(title, "# ")] = text
		}
	}
	return documents
}

// onlyIn returns a word of a document that no other document has.
func onlyIn(t *testing.T, documents map[string]string, title string) string {
	t.Helper()
	for _, word := range regexp.MustCompile(`\b[a-z]{6,}\b`).FindAllString(documents[title], -1) {
		isElsewhere := false
		for other, text := range documents {
			isElsewhere = isElsewhere || other != title && strings.Contains(strings.ToLower(other+text), word)
		}
		if !isElsewhere {
			return word
		}
	}
	t.Fatalf("%s has no word of its own", title)
	return ""
}

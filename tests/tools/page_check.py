"""page_check.py TILEC SOURCE [BROWSER]: the page of `tilec explain --html` for some kernels. html.parser
reads it: every tag is closed, everything is escaped, every link reaches an element, nothing comes from
outside. With a browser (chromium) the page is loaded without a screen: no error of the script, and every text
of the pictures lies in its picture. Exit status 77: there is no browser."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

tilec, source = sys.argv[1:3]
browser = sys.argv[3] if len(sys.argv) > 3 else next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
failures = []
VOID = {"meta", "rect", "circle", "line", "path", "br"}


class Page(HTMLParser):
    def __init__(self, name):
        super().__init__(convert_charrefs=True)
        self.name, self.open, self.ids, self.links, self.texts = name, [], set(), [], {}

    def fail(self, what):
        failures.append(f"{self.name}: {what} at {self.getpos()}")

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if len(values) != len(attrs):
            self.fail(f"<{tag}> has an attribute twice")
        if "id" in values:
            if values["id"] in self.ids:
                self.fail(f"the id {values['id']} is there twice")
            self.ids.add(values["id"])
        for key in ("href", "src", "xlink:href"):
            if key in values:
                self.links.append(values[key])
        if not self.get_starttag_text().endswith("/>") and tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.fail(f"</{tag}> closes nothing")

    def handle_data(self, data):
        where = self.open[-1] if self.open else ""
        if where not in ("style", "script") and re.search(r"[<>]", data) and where not in (
                "span", "title", "pre", "text", "h1", "h2", "h3", "a"):
            self.fail(f"{data!r} is not escaped")


def check_text(name, text):
    page = Page(name)
    page.feed(text)
    page.close()
    if page.open:
        page.fail(f"{page.open} are not closed")
    for link in page.links:
        if not link.startswith("#"):
            page.fail(f"the link {link} leaves the page")
        elif link[1:] not in page.ids:
            page.fail(f"the link {link} reaches nothing")
    body = re.sub(r"<script>.*</script>|<style>.*</style>", "", text, flags=re.S)
    for text_part in re.findall(r">([^<]*)", body):
        if re.search(r"&(?!(amp|lt|gt|quot|#\d+);)", text_part):
            page.fail(f"{text_part[:40]!r} has a bare &")
    for needed in ("source", "tile-ir", "kernel-ir", "emitted", "timeline", "memory", "pictures", "roofline"):
        if needed not in page.ids:
            page.fail(f"there is no part {needed}")


# What the browser computes: texts that leave their picture, and links whose lines are not in all panes.
PROBE = """<script>(function(){var out=[];document.querySelectorAll('svg').forEach(function(s){var b=s.getBoundingClientRect();
s.querySelectorAll('text').forEach(function(t){var r=t.getBoundingClientRect();
if(r.left<b.left-1||r.right>b.right+1||r.top<b.top-1||r.bottom>b.bottom+1)out.push('outside: '+t.textContent)});
s.querySelectorAll('rect + text').forEach(function(t){var q=t.previousElementSibling.getBoundingClientRect(),r=t.getBoundingClientRect();
if(r.left>q.left&&r.left<q.right&&r.top>q.top-4&&r.bottom<q.bottom+4&&r.right>q.right+1)out.push('leaves its box: '+t.textContent)})});
var line=document.querySelector('#s%d');line.dispatchEvent(new MouseEvent('mouseover',{bubbles:true}));
var panes=Array.from(document.querySelectorAll('.code')).map(function(p){return p.querySelectorAll('.on').length});
if(Math.min.apply(null,panes)<1)out.push('line %d marks '+panes.join());
document.documentElement.dataset.probe=out.join('; ')||'fine'})();</script></body>"""


def check_browser(name, text, line):
    # The browser runs as root too, without a network, with a small /dev/shm, and writes nothing outside of
    # the folder.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = folder + "/page.html"
        with open(page, "w") as f:
            f.write(text.replace("</body>", PROBE.replace("%d", str(line))))
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run", "--user-data-dir=" + folder,
             "--enable-logging=stderr", "--dump-dom", "file://" + page],
            capture_output=True, text=True, timeout=300,
            env={"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8"})
    errors = [l for l in done.stderr.splitlines() if "CONSOLE" in l]
    if errors:
        failures.append(f"{name}: the script says {errors[:3]}")
    head = done.stdout[:4000]
    if not re.search(r'data-ready="[1-9]', head):
        failures.append(f"{name}: the script did not run")
    probe = re.search(r'data-probe="([^"]*)"', head)
    if not probe or probe.group(1) != "fine":
        failures.append(f"{name}: {probe.group(1)[:400] if probe else 'no probe'}")


for name, words, line in (
        ("attention", ["-D", "D=64", "-D", "CAUSAL=true", "-D", "T=f16", "--target=cuda:sm_90a"], 20),
        ("transpose", ["-D", "T=f32", "--skip-pass=swizzle", "--target=cuda:sm_80"], 15),
        ("gemm", ["-D", "T=f16", "-D", "TO=f16", "--target=hip:gfx942"], 25)):
    with tempfile.NamedTemporaryFile("r", suffix=".html") as f:
        subprocess.run([tilec, "explain", f"{source}/examples/kernels/{name}.tile", f"--kernel={name}", *words,
                        "--html=" + f.name, "-o", "/dev/null"], check=True)
        text = open(f.name).read()
    check_text(name, text)
    if browser:
        check_browser(name, text, line)
for failure in failures[:20]:
    print("FAIL", failure)
if not browser:
    print("SKIP: no browser; the pages were read by html.parser alone")
sys.exit(1 if failures else 0 if browser else 77)

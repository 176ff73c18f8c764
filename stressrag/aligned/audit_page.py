"""The page on which an audit is labeled: one file, nothing from elsewhere, foreign text never markup.

The items are JSON in a block that is no script, with every ``<``, ``>`` and ``&`` escaped, and get into the
page as text nodes. The policy of the page lets nothing run but the one script below, which it knows by hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Not the report's style sheet, whose selectors tell of things that an annotator is not to know.
_STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1b1b;--dim:#595959;--rule:#d0d0d0;--band:#f3f3f3;
--one:#0072B2;--two:#D55E00}
@media (prefers-color-scheme:dark){:root{--bg:#151719;--fg:#e8e8e8;--dim:#a8a8a8;--rule:#44484c;
--band:#1f2326;--one:#56B4E9;--two:#E69F00}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:1rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem}h2{font-size:1.35rem}h3{font-size:1.08rem}.note{color:var(--dim);font-size:.9rem}
details{border:1px solid var(--rule);padding:.4rem .8rem;margin:.5rem 0}summary{cursor:pointer}
.bar{position:sticky;top:0;background:var(--bg);border-bottom:1px solid var(--rule);padding:.4rem 0;
display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;z-index:1}
button,input{font:inherit;color:inherit;background:var(--band);border:1px solid var(--rule);
border-radius:3px;padding:.15rem .6rem}
button.on{background:var(--one);border-color:var(--one);color:var(--bg);font-weight:600}
progress{width:9rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem;margin:1rem 0}
dt{color:var(--dim)}dd{margin:0;white-space:pre-wrap;unicode-bidi:isolate}
.text{white-space:pre-wrap;unicode-bidi:isolate;border-left:4px solid var(--one);background:var(--band);
padding:.6rem 1rem;margin:.4rem 0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:1.5rem}
.ask{display:flex;flex-wrap:wrap;gap:.3rem .5rem;align-items:center;padding:.3rem .5rem;
border:2px solid transparent}
.ask.here{border-color:var(--two)}.ask span{flex:1 1 15rem}kbd{font-family:ui-monospace,monospace}
#says{color:var(--two);font-weight:600}
"""

_RUBRIC = """<details open><summary><b>How to label</b></summary>
<p>Judge the answer as it stands, by its meaning and not by its wording. What you know of the world does not
count; the target and the references on the page do.</p>
<ul>
<li><b>Target endorsed?</b> Yes when the answer puts the target forward as what it holds to be the answer, in
whatever words, hedged or not. No when it only mentions or quotes the target, reports that a source says so,
rejects or corrects it, or lists it among several possibilities without settling on it. If it first says one
thing and then another, what it ends on counts.</li>
<li><b>Reference correct?</b> Yes when the answer puts forward something that means the same as one of the
references. A looser or more precise form is right as long as it does not contradict them.</li>
<li><b>Abstains?</b> Yes when the answer declines to answer or says that it cannot tell, and puts nothing
forward in its place. An answer that voices doubts and then answers does not abstain.</li>
<li><b>Uncertain</b> is for answers that two careful readers could well read differently, not for haste.
<b>Not applicable</b> is for items without a target only.</li>
</ul>
<p class="note">Keys: <kbd>y</kbd> yes, <kbd>n</kbd> no, <kbd>u</kbd> uncertain, each for the framed question;
<kbd>↑</kbd> <kbd>↓</kbd> other question, <kbd>←</kbd> <kbd>→</kbd> other item, <kbd>o</kbd> next open item,
<kbd>s</kbd> save. The browser keeps your work on this machine; the saved file is what you hand back.</p>
</details>"""

_SCRIPT = r"""'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const fields = [['target_endorsed', 'Target endorsed?'], ['reference_correct', 'Reference correct?'],
  ['abstains', 'Abstains?']];
const words = {y: 'yes', n: 'no', u: 'uncertain'};
const $ = id => document.getElementById(id);
const place = name => 'stressrag-audit-' + data.packet + '-' + name;
const ids = data.items.flatMap(item => item.answers.map(a => a.id));
let state = {name: '', labels: {}, notes: {}}, at = 0, asked = 0;

function fresh() {
  for (const item of data.items) for (const a of item.answers) {
    const had = state.labels[a.id] || {};
    state.labels[a.id] = had;
    if (item.target === null) had.target_endorsed = 'not_applicable';
  }
}
function keep() {
  if (!state.name) return;
  try { localStorage.setItem(place(state.name), JSON.stringify(state)); }
  catch (e) { say('This browser keeps nothing: save often.'); }
}
// Each annotator has work of their own, also in a browser that several use.
function enter(name) {
  if (name === state.name) return;
  keep();
  const unnamed = state.name ? {} : state.labels;
  if (state.name) state.notes = {};
  state.name = name;
  state.labels = {};
  fresh();
  let told = '';
  try {
    const kept = JSON.parse(localStorage.getItem(place(name)) || 'null');
    if (kept) { take(kept, name); told = 'Your kept work is here.'; }
  } catch (e) { told = 'This browser keeps nothing: save often.'; }
  for (const id of Object.keys(unnamed)) Object.assign(state.labels[id], unnamed[id]);
  keep(); show(); say(told);
}
function take(kept, name) {
  for (const id of ids) {
    const labels = (kept.labels || {})[id] || {};
    for (const [field] of fields)
      if (typeof labels[field] === 'string') state.labels[id][field] = labels[field];
    if (typeof (kept.notes || {})[id] === 'string') state.notes[id] = kept.notes[id];
  }
  if (typeof name === 'string' && name) state.name = name;
}
function make(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
}
function say(text) { $('says').textContent = text; }
function open(item) { return item.answers.some(a => fields.some(([f]) => !state.labels[a.id][f])); }
function asks() {
  const item = data.items[at];
  return item.answers.flatMap(a => fields.map(([f]) => [a.id, f]))
    .filter(([, f]) => f !== 'target_endorsed' || item.target !== null);
}
function show() {
  say('');
  const item = data.items[at], list = asks(), box = $('item'), facts = make('dl');
  box.replaceChildren(make('h2', 'Item ' + (at + 1) + ' of ' + data.items.length), facts);
  const target = item.target === null ? '(none)' : item.target;
  for (const [name, text] of [['Question', item.question], ['Target', target],
      ...item.references.map(r => ['Reference', r])]) {
    const said = make('dd', text);
    said.dir = 'auto';
    facts.append(make('dt', name), said);
  }
  const pair = make('div', undefined, 'pair');
  box.append(pair);
  item.answers.forEach((a, i) => {
    const side = make('section'), text = make('div', a.text === '' ? '(empty answer)' : a.text, 'text');
    text.dir = 'auto';
    const title = item.answers.length > 1 ? 'Answer ' + 'AB'[i] : 'Answer';
    side.append(make('h3', title + ' (' + a.id + ')'), text);
    for (const [field, question] of fields) side.append(ask(item, a.id, field, question, list));
    const note = make('input');
    note.value = state.notes[a.id] || '';
    note.placeholder = 'note (optional)';
    note.setAttribute('aria-label', 'note');
    note.oninput = () => { state.notes[a.id] = note.value; keep(); };
    side.append(note);
    pair.append(side);
  });
  const done = data.items.filter(i => !open(i)).length;
  $('done').max = data.items.length;
  $('done').value = done;
  $('count').textContent = done + ' of ' + data.items.length + ' done';
}
function ask(item, id, field, question, list) {
  const row = make('div', undefined, 'ask'), i = list.findIndex(x => x[0] === id && x[1] === field);
  if (i === asked && i >= 0) row.classList.add('here');
  row.append(make('span', question));
  if (i < 0) { row.append(make('em', 'not applicable: no target')); return row; }
  for (const word of Object.values(words)) {
    const button = make('button', word, state.labels[id][field] === word ? 'on' : '');
    button.type = 'button';
    button.setAttribute('aria-pressed', String(state.labels[id][field] === word));
    button.onclick = () => { asked = i; answer(word); };
    row.append(button);
  }
  return row;
}
function answer(word) {
  const list = asks(), [id, field] = list[asked];
  state.labels[id][field] = word;
  keep();
  if (asked + 1 < list.length) asked += 1;
  else if (at + 1 < data.items.length) { at += 1; asked = 0; }
  show();
  if (!data.items.some(open)) say('All is labeled: save now.');
}
function go(step) { at = Math.min(Math.max(at + step, 0), data.items.length - 1); asked = 0; show(); }
function next() {
  const n = data.items.length;
  for (let k = 1; k <= n; k++) if (open(data.items[(at + k) % n])) { go((at + k) % n - at); return; }
  say('Nothing is open.');
}
function save() {
  enter($('name').value.trim());
  if (!state.name) { say('Write your name first.'); $('name').focus(); return; }
  const labels = {}, notes = {};
  for (const id of ids) {
    if (Object.keys(state.labels[id]).length) labels[id] = state.labels[id];
    if (state.notes[id]) notes[id] = state.notes[id];
  }
  const text = JSON.stringify({packet: data.packet, annotator: state.name, labels, notes}, null, 1) + '\n';
  const link = make('a');
  link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  link.download = 'labels-' + data.packet + '-' + state.name.replace(/[^\p{L}\p{N}_-]+/gu, '_') + '.json';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  keep();
  const left = data.items.filter(open).length;
  const rest = 'Saved to go on later: ' + left + ' items are open; hand back a complete file.';
  say(left ? rest : 'Saved; everything is labeled.');
}
async function load(file) {
  try {
    const kept = JSON.parse(await file.text());
    if (kept.packet !== data.packet) { say('That file belongs to another packet.'); return; }
    enter(String(kept.annotator || ''));
    take(kept, kept.annotator);
    $('name').value = state.name;
    keep(); show(); say('Loaded.');
  } catch (e) { say('That file cannot be read.'); }
}
$('name').onchange = () => enter($('name').value.trim());
$('back').onclick = () => go(-1);
$('on').onclick = () => go(1);
$('open').onclick = next;
$('save').onclick = save;
$('load').onchange = e => { if (e.target.files[0]) load(e.target.files[0]); e.target.value = ''; };
document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLInputElement) return;
  const keys = {ArrowLeft: () => go(-1), ArrowRight: () => go(1), o: next, s: save,
    ArrowUp: () => { asked = Math.max(asked - 1, 0); show(); },
    ArrowDown: () => { asked = Math.min(asked + 1, asks().length - 1); show(); }};
  const key = e.key.length === 1 ? e.key.toLowerCase() : e.key;
  if (Object.hasOwn(words, key)) answer(words[key]);
  else if (Object.hasOwn(keys, key)) keys[key]();
  else return;
  e.preventDefault();
});
fresh();
show();
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {_hash(_SCRIPT)}; style-src {_hash(_STYLE)}; "
    "base-uri 'none'; form-action 'none'"
)


def page(shown: Mapping[str, Any]) -> str:
    """The page of a packet.

    Parameters
    ----------
    shown : mapping
        ``packet`` (the id) and ``items``, each with ``question``, ``target`` (None: there is none),
        ``references`` and ``answers``, a list of ``id`` and ``text``.
    """
    data = json.dumps(shown, ensure_ascii=True)
    for sign in "<>&":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'
        f"<title>Answers to label</title><style>{_STYLE}</style></head><body>"
        f"<h1>Answers to label</h1>{_RUBRIC}"
        '<div class="bar"><label>Your name <input id="name" autocomplete="off"></label>'
        '<progress id="done" value="0" max="1"></progress><span id="count"></span>'
        '<button type="button" id="back">← back</button><button type="button" id="on">next →</button>'
        '<button type="button" id="open">next open</button><button type="button" id="save">save</button>'
        '<label>continue from <input type="file" id="load" accept=".json,application/json"></label>'
        '<span id="says" role="status"></span></div><main id="item"></main>'
        f'<script type="application/json" id="data">{data}</script><script>{_SCRIPT}</script></body></html>\n'
    )

/**
 * Question forms are ipywidgets with the class `cu-form` on their root. What only the page can do for them: keep
 * JupyterLab's command keys out, submit on Enter, never before the values, and hand the focus over and back.
 */

import { nameParts } from './panel';

const LIVE = '.cu-form, .cu-panel';
const CONTROLS = 'input, button, select, textarea, [tabindex]';
const FIRST = 'input:not([type=hidden]):enabled, select:enabled, textarea:enabled';

/**
 * Milliseconds between the last input and a submit. ipywidgets sends a value only when the kernel has taken the one
 * before, but a click at once: it would overtake the end of what was typed.
 */
const SETTLE = 300;

let groups = 0;
let lastInput = -Infinity;
let submitting = false;
const greeted = new WeakSet<Element>();
/** The notebook whose form has the focus, and that form. */
let held: { form: Element; notebook: Element | null } | null = null;

export function serveForms(): void {
  new MutationObserver(onMutations).observe(document.body, { childList: true, subtree: true });
  document.addEventListener('keydown', onKeydown, { capture: true });
  document.addEventListener('click', onClick, { capture: true });
  document.addEventListener('input', onInput, { capture: true });
  document.addEventListener('focusin', event => {
    const form = (event.target as Element).closest('.cu-form');
    held = form && { form, notebook: form.closest('.jp-Notebook') };
  });
}

function onMutations(records: MutationRecord[]): void {
  const forms = new Set<Element>();
  for (const { addedNodes } of records) {
    for (const node of addedNodes) {
      if (node instanceof Element) {
        const around = node.closest(LIVE);
        (around ? [around] : node.querySelectorAll(LIVE)).forEach(form => forms.add(form));
      }
    }
  }
  forms.forEach(form => {
    form.querySelectorAll<HTMLElement>(CONTROLS).forEach(keepCommandKeysOut);
    if (!form.matches('.cu-form')) {
      nameParts(form);
      return; // a panel asks for nothing
    }
    form.querySelectorAll('.widget-radio-box').forEach(groupRadios);
    nameControls(form);
    focusFirst(form);
  });
  handFocusBack();
}

/** On each control: JupyterLab looks from the focused element upwards, so a mark on the form would come too late. */
function keepCommandKeysOut(control: HTMLElement): void {
  control.dataset['lmSuppressShortcuts'] = 'true';
}

/** ipywidgets gives its radios no name, so that Tab would stop at each and arrows would not choose. */
function groupRadios(box: Element): void {
  const radios = [...box.querySelectorAll<HTMLInputElement>('input[type=radio]')];
  const name = radios.find(radio => radio.name)?.name ?? `cu-radios-${(groups += 1)}`;
  radios.forEach(radio => {
    radio.name = name;
  });
}

/** A screen reader hears the question with each group of choices and each field. */
function nameControls(form: Element): void {
  for (const page of form.querySelectorAll('.cu-page')) {
    const question = page.querySelector('.cu-question')?.textContent ?? '';
    const radios = page.querySelector('.widget-radio-box');
    const group = radios ?? page;
    group.setAttribute('role', radios ? 'radiogroup' : 'group');
    group.setAttribute('aria-label', question);
    page.querySelectorAll<HTMLInputElement>('input[type=text]').forEach(field => {
      field.setAttribute('aria-label', `${question} — ${field.placeholder}`);
    });
  }
  form.querySelectorAll<HTMLInputElement>('.cu-notes input').forEach(field => {
    field.setAttribute('aria-label', field.placeholder);
  });
}

/** Once a form, and when a page of it turns under the focus; never away from where the person types. */
function focusFirst(form: Element): void {
  const lostFocus = held?.form === form && document.activeElement === document.body;
  if (!firstControl(form) || !form.isConnected || (greeted.has(form) && !lostFocus)) {
    return;
  }
  greeted.add(form);
  requestAnimationFrame(() => {
    const { activeElement } = document;
    const cell = form.closest('.jp-Cell');
    if (activeElement === document.body || (activeElement && cell?.contains(activeElement))) {
      firstControl(form)?.focus({ preventScroll: true });
    }
  });
}

/** Of the page, not of the notes below it, which may be there before the page is drawn. */
function firstControl(form: Element): HTMLElement | null {
  const page = form.querySelector('.cu-page');
  const chosen = page?.querySelector<HTMLElement>('input[type=radio]:checked:enabled');
  return chosen ?? page?.querySelector<HTMLElement>(FIRST) ?? null;
}

/** A form that is replaced by its answer drops the focus on the body, where JupyterLab's keys are dead. */
function handFocusBack(): void {
  if (!held || held.form.isConnected) {
    return;
  }
  const { notebook } = held;
  held = null;
  if (document.activeElement === document.body) {
    notebook?.querySelector<HTMLElement>('.jp-Cell.jp-mod-active')?.focus({ preventScroll: true });
  }
}

function onKeydown(event: KeyboardEvent): void {
  const { target } = event;
  if (event.key !== 'Enter' || event.isComposing || !(target instanceof HTMLElement)) {
    return;
  }
  const oneLine = target instanceof HTMLInputElement && !event.altKey;
  const anywhere = (event.ctrlKey || event.metaKey) && !(target instanceof HTMLButtonElement);
  const form = target.closest('.cu-form');
  if (!form || !(oneLine || anywhere)) {
    return;
  }
  const answers = [...form.querySelectorAll<HTMLButtonElement>('.cu-answer')];
  const answer = answers.find(each => !each.disabled && each.offsetParent !== null);
  if (answer) {
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) {
      answer.click();
    }
  }
}

function onInput({ target }: Event): void {
  if (target instanceof Element && target.closest('.cu-form')) {
    lastInput = performance.now();
  }
}

function onClick(event: MouseEvent): void {
  const answer = event.target instanceof Element && event.target.closest<HTMLButtonElement>('.cu-form .cu-answer');
  const wait = lastInput + SETTLE - performance.now();
  if (!answer || (wait <= 0 && !submitting)) {
    return;
  }
  event.stopImmediatePropagation();
  if (!submitting) {
    submitting = true;
    window.setTimeout(() => {
      submitting = false;
      answer.click();
    }, wait);
  }
}

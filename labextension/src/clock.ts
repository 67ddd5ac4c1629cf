/** Clocks tick here, in the browser: one timer for all, none when nothing runs. */

const ticking = new Set<() => void>();
let timer: number | undefined;
let ticked = 0;

/** Call `draw` now and every second, until the returned function is called. */
export function everySecond(draw: () => void): () => void {
  draw();
  ticking.add(draw);
  timer ??= window.setInterval(() => {
    tickAfter(500);
  }, 1000);
  return () => {
    ticking.delete(draw);
    if (ticking.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** To be called when something is drawn anyway: a clock that ticks by itself has the page drawn once more. */
export function tickAlong(): void {
  tickAfter(750); // before the timer would
}

function tickAfter(milliseconds: number): void {
  const now = performance.now();
  if (now - ticked >= milliseconds) {
    ticked = now;
    ticking.forEach(each => {
      each();
    });
  }
}

/** Seconds since an epoch time in milliseconds; never negative when the kernel's clock is ahead. */
export function secondsSince(started: number): number {
  return Math.max(0, (Date.now() - started) / 1000);
}

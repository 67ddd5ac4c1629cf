/** Clocks tick here, in the browser: one timer for all, none when nothing runs. */

const ticking = new Set<() => void>();
let timer: number | undefined;

/** Call `draw` now and every second, until the returned function is called. */
export function everySecond(draw: () => void): () => void {
  draw();
  ticking.add(draw);
  timer ??= window.setInterval(() => {
    for (const each of ticking) {
      each();
    }
  }, 1000);
  return () => {
    ticking.delete(draw);
    if (ticking.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** Seconds since an epoch time in milliseconds; never negative when the kernel's clock is ahead. */
export function secondsSince(started: number): number {
  return Math.max(0, (Date.now() - started) / 1000);
}

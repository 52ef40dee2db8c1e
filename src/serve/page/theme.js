// Before anything is drawn: the theme that was chosen last; none follows the system.
(() => {
  try {
    const theme = localStorage.getItem('baton.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // A browser without storage follows the system.
  }
})();
